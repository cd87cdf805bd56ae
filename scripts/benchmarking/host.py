"""What machine this is, and who measures."""

import os
import platform
import pwd
import subprocess
from datetime import datetime, timezone


class User:
    """Whose identity the commands get."""

    def __init__(self, uid):
        self.uid = uid
        try:
            entry = pwd.getpwuid(uid)
            self.gid, self.name, self.home = entry.pw_gid, entry.pw_name, entry.pw_dir
        except KeyError:
            self.gid, self.name, self.home = uid, str(uid), "/"


def first_line(path):
    try:
        with open(path) as file:
            return file.readline().strip()
    except OSError:
        return None


def field(path, name):
    try:
        with open(path) as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == name:
                    return value.strip()
    except OSError:
        pass
    return None


def available_bytes():
    return int((field("/proc/meminfo", "MemAvailable") or "0 kB").split()[0]) * 1024


def distribution():
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def describe(user):
    total = int((field("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) * 1024
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "distribution": distribution(),
        "cpu": field("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        "cores": len(os.sched_getaffinity(0)),
        "memoryBytes": total,
        "governor": first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "loadAverageBefore": list(os.getloadavg()),
        "user": {"uid": user.uid, "kind": "root" if user.uid == 0 else "ordinary user"},
    }


def commit(root):
    """The source that the executable was presumably built from."""
    def git(*args):
        done = subprocess.run(["git", "-C", root, *args], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else None
    try:
        head = git("rev-parse", "--short=12", "HEAD")
        return head and head + ("-changed" if git("status", "--porcelain") else "")
    except OSError:
        return None
