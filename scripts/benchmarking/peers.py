"""Who takes part, and with which command line. Everybody gets the same task: the file system read-only, the working
directory writable, no network, an own view of processes. How far each goes beyond is in `isolation.py`'s table."""

import itertools
import json
import os
import shlex
import subprocess

from .install import Missing

NAMES = ["bubblewrap", "srt", "firejail", "runc", "hakoniwa", "sandlock", "nono"]
# For those who clear the environment.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OPTIONAL = ["sandlock", "nono"]
EMPTY = {"network": {"allowedDomains": [], "deniedDomains": []},
         "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}


class Contestant:
    """A way to run a command: `argv(command)` is what is executed for it."""

    def __init__(self, name, argv, version="", remark="", place=None, settings=None):
        self.name, self.make, self.version, self.remark, self.place = name, argv, version, remark, place
        # What the command line only points to.
        self.settings = settings

    def argv(self, command):
        return self.make(list(command))

    def shown(self):
        """The exact command line for `true`, without the names of temporary directories."""
        text = shlex.join(self.argv(["true"]))
        for path, word in self.place.names() if self.place else []:
            text = text.replace(path, word)
        return text

    def described(self):
        about = {"name": self.name, "version": self.version, "command": self.shown(), "remark": self.remark}
        return {**about, "settings": self.settings} if self.settings else about


class Place:
    """Temporary directories of one run: `work` is the working directory of all, `side` holds settings and bundles."""

    def __init__(self, directory, user):
        self.directory, self.user = directory, user
        self.work, self.side, self.state, self.outside = (f"{directory}/{name}" for name in ["work", "side", "state", "outside"])
        self.known = [(self.work, "WORK"), (self.side, "SIDE"), (directory, "TEMP")]
        os.chmod(directory, 0o755)
        for path in [self.work, self.side, self.state, self.outside]:
            os.mkdir(path)
            os.chown(path, user.uid, user.gid)

    def names(self):
        return self.known

    def directories(self, count):
        """Working directories for so many sandboxes at once: the one of all for one alone."""
        if count == 1:
            return [self.work]
        paths = [f"{self.work}/{number}" for number in range(count)]
        for path in paths:
            if not os.path.isdir(path):
                os.mkdir(path)
                os.chown(path, self.user.uid, self.user.gid)
        return paths

    def shorten(self, path, word):
        self.known.append((path, word))

    def write(self, name, data):
        path = f"{self.side}/{name}"
        with open(path, "w") as file:
            json.dump(data, file)
        os.chmod(path, 0o644)
        return path


def prefix(*words):
    return lambda command: [*words, *command]


def version_of(program, *arguments):
    try:
        done = subprocess.run([program, *(arguments or ["--version"])], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0].strip() if lines else "unknown"


def assemble(shelf, place, lazaret, wanted, own_peers):
    """Everybody that can be tried here, and who cannot be with the reason."""
    makers = {"bubblewrap": bubblewrap, "srt": srt, "firejail": firejail, "runc": runc, "hakoniwa": hakoniwa,
              "sandlock": sandlock, "nono": nono}
    variants, missing = of_lazaret(lazaret, place)
    found = [Contestant("direct", prefix("/usr/bin/env"), "", "no sandbox: `env` executes the command"), *variants]
    for name in wanted:
        try:
            found.append(makers[name](shelf, place))
        except (Missing, OSError) as error:
            missing[name] = str(error)
    for name, words in own_peers:
        try:
            words = [word.replace("{work}", place.work) for word in words]
            program = shelf.which(words[0]) or shelf.refuse(f"{words[0]} cannot be found")
            found.append(Contestant(name, prefix(program, *words[1:]), version_of(program), "given on the command line", place))
        except Missing as error:
            missing[name] = str(error)
    return found, missing


def of_lazaret(program, place):
    version = version_of(program)
    place.shorten(program, "lazaret")
    made = [
        Contestant("lazaret", prefix(program, "run", "--"), version, "defaults: level 2, all layers, audit log", place),
        Contestant("lazaret level 1", prefix(program, "run", "--level", "1", "--"), version, "", place),
        Contestant("lazaret network", prefix(program, "run", "--allow", "bench.test", "--"), version,
                   "as `lazaret`, with the gate and one allowed name", place),
    ]
    settings = place.write("srt.json", EMPTY)
    try:
        helped = subprocess.run([program, "srt", "--help"], capture_output=True, text=True)
    except OSError as error:
        return [], {"lazaret": str(error)}
    if helped.returncode == 0:
        made.append(Contestant("lazaret srt", shell_argument(program, "srt", "-s", settings, "-c"), version,
                               "the same settings file as srt", place, EMPTY))
        return made, {}
    said = (helped.stderr.splitlines() or ["no message"])[0]
    return made, {"lazaret srt": f"this lazaret has no such command: {said}"}


def shell_argument(*words):
    return lambda command: [*words, shlex.join(command)]


def bubblewrap(shelf, place):
    program = shelf.program("bwrap")
    return Contestant("bubblewrap", prefix(program, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev",
                                           "--proc", "/proc", "--bind", place.work, place.work, "--"),
                      version_of(program), "no system call filter", place)


def srt(shelf, place):
    node, cli, version = shelf.srt()
    place.shorten(node, "node")
    place.shorten(cli, "srt/dist/cli.js")
    settings = place.write("srt.json", EMPTY)
    return Contestant("srt", shell_argument(node, cli, "-s", settings, "-c"),
                      f"{version}, Node {version_of(node)}", "settings: " + json.dumps(EMPTY), place, EMPTY)


def firejail(shelf, place):
    program = shelf.program("firejail")
    return Contestant("firejail", prefix(program, "--quiet", "--noprofile", "--net=none", "--private-dev", "--caps.drop=all",
                                         "--nonewprivs", "--seccomp", "--read-only=/", f"--read-write={place.work}", "--"),
                      version_of(program), "setuid root", place)


def hakoniwa(shelf, place):
    program = shelf.crate("hakoniwa")
    place.shorten(program, "hakoniwa")
    return Contestant("hakoniwa", prefix(program, "run", "--unshare-all", "--rootfs", "/", "--devfs", "/dev",
                                         "--setenv", f"PATH={PATH}", "--workdir", place.work, "--"),
                      version_of(program), "its default system call filter", place)


def sandlock(shelf, place):
    program = shelf.crate("sandlock")
    place.shorten(program, "sandlock")
    return Contestant("sandlock", prefix(program, "run", "-r", "/", "-w", place.work, "-w", "/dev/null", "--"),
                      version_of(program), "no namespaces: Landlock and system call filters", place)


def nono(shelf, place):
    program = shelf.crate("nono")
    place.shorten(program, "nono")
    return Contestant("nono", prefix(program, "run", "--silent", "--read", "/", "--allow", place.work, "--allow-file", "/dev/null",
                                     "--block-net", "--"),
                      version_of(program), "no namespaces: Landlock", place)


# runc wants a bundle instead of arguments.

BOUND_ELSEWHERE = ["proc", "sys", "dev"]


def runc(shelf, place):
    program = shelf.program("runc")
    bundles, numbers = {}, itertools.count()
    config = recorded(configuration(place, ["true"]))

    def argv(command):
        words = tuple(command)
        if words not in bundles:
            bundles[words] = bundle(place, f"{place.side}/bundle-{len(bundles)}", command)
        return [program, "--root", f"{place.state}/runc", "run", "--bundle", bundles[words],
                f"lazaret-benchmark-{os.getpid()}-{next(numbers)}"]

    return Contestant("runc", argv, version_of(program), "bundle: in results.json; no system call filter; as root with control groups",
                      place, config)


def recorded(config):
    """For the results: without the names of this host's own directories."""
    made = [mount for mount in config["mounts"] if mount["type"] != "none"]
    bound = [{"destination": "each top directory of the host", "options": ["rbind", "ro"]},
             {"destination": "WORK", "options": ["bind", "rw"]}]
    return {**config, "mounts": made + bound, "process": {**config["process"], "cwd": "WORK"}}


def top_directories():
    """What the root of the host consists of."""
    return sorted((entry for entry in os.scandir("/") if entry.is_symlink() or entry.is_dir()), key=lambda entry: entry.name)


def bundle(place, directory, command):
    """A bundle that does the others' task: every top directory of the host read-only, the working directory writable."""
    os.makedirs(f"{directory}/rootfs")
    for entry in top_directories():
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), f"{directory}/rootfs/{entry.name}")
        else:
            os.mkdir(f"{directory}/rootfs/{entry.name}")
    with open(f"{directory}/config.json", "w") as file:
        json.dump(configuration(place, command), file, indent=1)
    return directory


def configuration(place, command):
    mounts = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
    ]
    for entry in top_directories():
        if not entry.is_symlink() and entry.name not in BOUND_ELSEWHERE:
            mounts.append({"destination": entry.path, "type": "none", "source": entry.path, "options": ["rbind", "ro"]})
    mounts.append({"destination": place.work, "type": "none", "source": place.work, "options": ["bind", "rw"]})
    return {
        "ociVersion": "1.0.2",
        "process": {"terminal": False, "user": {"uid": 0, "gid": 0}, "args": command, "cwd": place.work, "noNewPrivileges": True,
                    "env": [f"PATH={PATH}"],
                    "capabilities": {kind: [] for kind in ["bounding", "effective", "permitted", "ambient"]}},
        "root": {"path": "rootfs", "readonly": True},
        "mounts": mounts,
        "linux": {
            "uidMappings": [{"containerID": 0, "hostID": place.user.uid, "size": 1}],
            "gidMappings": [{"containerID": 0, "hostID": place.user.gid, "size": 1}],
            "namespaces": [{"type": kind} for kind in ["pid", "ipc", "uts", "mount", "user", "network", "cgroup"]],
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        },
    }
