"""Tries everybody before anything is timed: does it run here at all, does it do the task, and which walls does the
command find around itself? The answers come from inside, not from anybody's documentation."""

import os

from .processes import Failed

NAMESPACES = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]

PROBE = """
for kind in user mnt pid net ipc uts cgroup; do echo "ns_$kind=$(readlink /proc/self/ns/$kind)"; done
while read -r key value rest; do
  case $key in Seccomp:|NoNewPrivs:|CapEff:) echo "${key%:}=$value";; esac
done < /proc/self/status
(: > ./written) 2>/dev/null
(: > "$1/written") 2>/dev/null
echo "home=$(ls -A "$2" 2>/dev/null | wc -l)"
"""


def examine(launcher, contestant, place, shell="/bin/sh"):
    """What the command finds, as words; raises Failed when the contestant does not do the task."""
    for name in ["work/written", "outside/written"]:
        if os.path.lexists(f"{place.directory}/{name}"):
            os.unlink(f"{place.directory}/{name}")
    launcher.seconds(contestant.argv(["true"]), timeout=60)
    text = launcher.output(contestant.argv([shell, "-c", PROBE, "probe", place.outside, place.user.home]), timeout=60)
    answers = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    if not os.path.exists(f"{place.work}/written"):
        raise Failed("the command cannot write to the working directory")
    own = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in NAMESPACES}
    return {
        "namespaces": [kind for kind in NAMESPACES if answers.get(f"ns_{kind}", own[kind]) != own[kind]],
        "seccompFilter": answers.get("Seccomp") == "2",
        "noNewPrivileges": answers.get("NoNewPrivs") == "1",
        "capabilities": "none" if int(answers.get("CapEff", "0"), 16) == 0 else "some",
        "restReadOnly": not os.path.exists(f"{place.outside}/written"),
        "homeEntries": {"inside": int(answers.get("home", 0)), "outside": entries_of(place.user.home)},
    }


def entries_of(directory):
    try:
        return len(os.listdir(directory))
    except OSError:
        return 0
