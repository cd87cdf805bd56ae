"""Start-up of `true`, the rate of launches, and many at once."""

from functools import partial

from .rounds import Measure, take_turns

LAUNCHES = 64


def startup(run):
    measure = Measure("startup", "startup", "Start-up: one launch of `true`", "ms")

    def sample(contestant):
        return [run.launcher.seconds(contestant.argv(["true"])) * 1000]

    take_turns(run, "start-up", run.contestants, [([measure], sample)], run.rounds(60, 15), warm_up=run.warm_up(5))
    return [measure]


def creation(run):
    rate = Measure("creation", "rate", "Launches of `true` per second, one after the other", "1/s", better="higher")
    steps = [([rate], lambda contestant: [run.launcher.rate(contestant.argv(["true"]), run.seconds(2, 0.5))])]
    for at_once in [8, 32]:
        measure = Measure("creation", f"at-once-{at_once}", f"{LAUNCHES} launches of `true`, {at_once} at once", "s")
        steps.append(([measure], partial(wave, run, at_once)))
    take_turns(run, "creation", run.main_contestants(), steps, run.rounds(3, 1))
    return [measure for measures, _ in steps for measure in measures]


def wave(run, at_once, contestant):
    # Each in a directory of its own, as agents work; srt cannot start several in the same one.
    directories = run.place.directories(LAUNCHES)
    return [run.launcher.batch([(contestant.argv(["true"]), directory) for directory in directories], at_once)]
