"""Takes samples in turns: every round asks everybody once, in a new random order, so that whatever else the machine
does falls on all of them alike. Keeps all samples, and what could not be measured with the reason."""

import sys
import time

from .processes import Failed, note


class Measure:
    """One figure of everybody. `better` is "lower" or "higher"; `base` is whom the chart compares with."""

    def __init__(self, group, key, title, unit, better="lower", base="bubblewrap"):
        self.group, self.key, self.title, self.unit, self.better, self.base = group, key, title, unit, better, base
        self.samples, self.not_measured, self.discarded = {}, {}, {}

    def add(self, name, value):
        self.samples.setdefault(name, []).append(value)

    def fail(self, name, reason):
        """Out, with the reason. What was sampled before is kept apart: it counts for nothing."""
        self.not_measured[name] = reason
        self.discarded[name] = self.samples.pop(name, [])

    def median(self, name):
        samples = self.samples.get(name)
        return quantile(samples, 0.5) if samples else None

    def ratio(self, name, base):
        """How many times the median of `base`; None when either is missing."""
        own, other = self.median(name), self.median(base)
        return own / other if own is not None and other else None

    def cost(self, name, base):
        """The same, turned so that more is always worse."""
        ratio = self.ratio(name, base)
        return 1 / ratio if ratio and self.better == "higher" else ratio

    def as_json(self):
        entries = {
            name: {
                "median": quantile(samples, 0.5), "min": min(samples), "max": max(samples),
                "p25": quantile(samples, 0.25), "p75": quantile(samples, 0.75),
                "iqr": quantile(samples, 0.75) - quantile(samples, 0.25),
                "ratioToBubblewrap": self.ratio(name, "bubblewrap"), "ratioToSrt": self.ratio(name, "srt"),
                "samples": samples,
            }
            for name, samples in self.samples.items()
        }
        return {"group": self.group, "key": self.key, "title": self.title, "unit": self.unit, "better": self.better,
                "entries": entries, "notMeasured": self.not_measured, "discardedSamples": self.discarded}


def quantile(samples, fraction):
    """Linear between the two nearest."""
    ordered = sorted(samples)
    place = (len(ordered) - 1) * fraction
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def take_turns(run, title, contestants, steps, rounds, warm_up=0):
    """Each step is a list of measures and a function that gives one value for each of them. Who fails twice in a row is
    out of that step, with the reason. On a slow or busy machine there are fewer rounds, so that a run has an end; their
    number shows in the results."""
    begin, progress = time.monotonic(), Progress(title, rounds + warm_up)
    order = list(contestants)
    for number in range(rounds + warm_up):
        progress.show(number)
        run.random.shuffle(order)
        for measures, sample in steps:
            for contestant in order:
                if contestant.name in measures[0].not_measured:
                    continue
                try:
                    values = twice(sample, contestant)
                except Failed as error:
                    progress.interrupt(f"   {contestant.name}: {measures[0].title}: not measured: {error}")
                    for measure in measures:
                        measure.fail(contestant.name, str(error))
                    continue
                if number >= warm_up:
                    for measure, value in zip(measures, values, strict=True):
                        measure.add(contestant.name, value)
        taken = number + 1 - warm_up
        if taken >= 1 and time.monotonic() - begin > run.budget:
            break
    progress.done(taken, time.monotonic() - begin)


def twice(sample, contestant):
    try:
        return sample(contestant)
    except Failed:
        return sample(contestant)


class Progress:
    def __init__(self, title, total):
        self.title, self.total, self.told = title, total, 0.0

    def show(self, number):
        on_terminal = sys.stderr.isatty()
        if time.monotonic() - self.told < (0.2 if on_terminal else 20):
            return
        self.told = time.monotonic()
        text = f"-- {self.title}: round {number + 1} of {self.total}"
        print(f"\r\x1b[K{text}" if on_terminal else text, end="" if on_terminal else "\n", file=sys.stderr, flush=True)

    def interrupt(self, text):
        note(("\r\x1b[K" if sys.stderr.isatty() else "") + text)

    def done(self, rounds, seconds):
        self.interrupt(f"-- {self.title}: {rounds} rounds, {seconds:.0f} s")
