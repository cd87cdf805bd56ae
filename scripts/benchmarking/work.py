"""What a sandbox costs while its command works: cheap system calls, and a build."""

import os
import subprocess

from .install import Missing
from .processes import Failed, last_line
from .rounds import Measure, take_turns

FILES = 30
# Written so that `make` finds its compiler's temporary directory in every sandbox, also with a read-only /tmp.
MAKEFILE = """export TMPDIR = $(CURDIR)/tmp
OBJECTS = $(patsubst %.c,%.o,$(wildcard *.c))
all: $(OBJECTS)
%.o: %.c
\t@gcc -O1 -c -o $@ $<
clean:
\t@rm -f $(OBJECTS)
"""


def syscalls(run):
    try:
        compiler = run.shelf.program("gcc")
    except Missing as error:
        raise Failed(str(error)) from None
    program, file = f"{run.place.work}/syscalls", f"{run.place.work}/some-file"
    source = os.path.join(os.path.dirname(__file__), "syscalls.c")
    done = subprocess.run([compiler, "-O1", "-o", program, source], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"gcc: {last_line(done.stderr)}")
    with open(file, "w"):
        pass
    for path in [program, file]:
        os.chown(path, run.place.user.uid, run.place.user.gid)
    measures = [Measure("syscalls", key, title, "ns", base="direct") for key, title in [
        ("getppid", "One call of getppid"), ("open-close", "One open and close of a file"), ("stat", "One stat of a file")]]
    calls, opens = (1_000_000, 100_000) if not run.quick else (200_000, 20_000)

    def sample(contestant):
        text = run.launcher.output(contestant.argv([program, file, str(calls), str(opens)]))
        values = [float(word) for word in text.split()]
        if len(values) != len(measures):
            raise Failed(f"unexpected output: {last_line(text)}")
        return values

    take_turns(run, "system calls", run.contestants, [(measures, sample)], run.rounds(5, 2))
    return measures


def build(run):
    try:
        for tool in ["gcc", "make"]:
            run.shelf.program(tool)
    except Missing as error:
        raise Failed(str(error)) from None
    tree = f"{run.place.work}/build"
    os.makedirs(f"{tree}/tmp")
    with open(f"{tree}/Makefile", "w") as file:
        file.write(MAKEFILE)
    for number in range(FILES):
        with open(f"{tree}/part{number}.c", "w") as file:
            file.write(source(number))
    for directory, _, files in os.walk(tree):
        for path in [directory, *(os.path.join(directory, name) for name in files)]:
            os.chown(path, run.place.user.uid, run.place.user.gid)
    jobs = len(os.sched_getaffinity(0))
    measure = Measure("build", "make", f"Build of {FILES} C files (make -j{jobs}, gcc -O1), start-up included", "s", base="direct")

    def sample(contestant):
        run.launcher.seconds(["/usr/bin/env", "make", "-s", "-C", tree, "clean"])
        return [run.launcher.seconds(contestant.argv(["make", "-s", f"-j{jobs}", "-C", tree]))]

    take_turns(run, "build", run.main_contestants(), [([measure], sample)], run.rounds(5, 1))
    return [measure]


def source(number):
    """A file that takes the compiler some time, and headers that it has to find."""
    lines = ["#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>", "#include <math.h>"]
    for part in range(10):
        lines.append(f"int f{number}_{part}(const char *s, int n) {{ int t = {part}; for (int i = 0; i < n; i++) "
                     f"{{ t = t * 31 + s[i % 7]; if (t % {number + 3} == 0) t ^= (int)strlen(s) + i; }} "
                     f"char b[64]; snprintf(b, sizeof b, \"%d\", t); return atoi(b); }}")
    return "\n".join(lines) + "\n"
