"""Memory of what stands around an idle command: proportional set size (shared pages are divided among those who share
them) of all processes below the launch, except the command itself."""

import time

from . import host
from .processes import Failed, alive, last_line, name_of, proportional_bytes, tree
from .rounds import Measure, take_turns

COMMAND = ["sleep", "600"]
ALIVE = 50
STARTING_AT_ONCE = 4
PATIENCE = 120
MEGABYTE = 1e6


def memory(run):
    idle = Measure("memory", "idle", "Memory of one idle sandbox, the command itself not counted", "MB")
    steps = [([idle], lambda contestant: [around(run, contestant, 1) / MEGABYTE])]
    take_turns(run, "memory", without_direct(run.contestants), steps, run.rounds(5, 2))
    return [idle, *crowd(run, idle)]


def crowd(run, idle):
    shared = Measure("memory", f"alive-{ALIVE}", f"Memory per sandbox with {ALIVE} alive at once, the commands not counted", "MB")
    contestants = without_direct(run.main_contestants())

    def sample(contestant):
        one = idle.median(contestant.name)
        if one is None:
            raise Failed("one alone was not measured")
        needed = one * MEGABYTE * ALIVE
        if needed * 1.5 > host.available_bytes():
            raise Failed(f"{ALIVE} of them could need {needed / 1e9:.1f} GB: too much for what is free here")
        return [around(run, contestant, ALIVE) / ALIVE / MEGABYTE]

    take_turns(run, f"{ALIVE} alive", contestants, [([shared], sample)], run.rounds(2, 1))
    return [shared]


def without_direct(contestants):
    return [contestant for contestant in contestants if contestant.name != "direct"]


def around(run, contestant, count):
    """Bytes around so many commands, once all of them sleep."""
    deadline = time.monotonic() + PATIENCE
    pids = []
    with run.launcher.running() as start:
        for directory in run.place.directories(count):
            pids.append(start(contestant.argv(COMMAND), directory))
            # Not all in one rush: this is about those who are there, not about how they came.
            wait(run, pids, STARTING_AT_ONCE, deadline)
        wait(run, pids, 0, deadline)
        # What a launcher frees or gives back when all is set up is not counted against it.
        time.sleep(run.seconds(1.0, 0.5))
        sizes = [proportional_bytes(process) for pid in pids for process in tree(pid) if name_of(process) != COMMAND[0]]
    closed = sum(size is None for size in sizes)
    if closed:
        raise Failed(f"{closed} of {len(sizes)} processes may not be looked into: measure as root with --as-user")
    return sum(sizes)


def wait(run, pids, allowed, deadline):
    """Until at most so many do not sleep yet."""
    while sum(not sleeping(pid) for pid in pids) > allowed:
        if not all(alive(pid) for pid in pids):
            raise Failed(f"ended before its command slept: {last_line(run.launcher.complaint())}")
        if time.monotonic() > deadline:
            raise Failed(f"the command did not start within {PATIENCE} s")
        time.sleep(0.02)


def sleeping(pid):
    return any(name_of(process) == COMMAND[0] for process in tree(pid))
