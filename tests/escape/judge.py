#!/usr/bin/env python3
"""The judge of the escape suite: sets up the host's side of every attack, runs the attack without the
sandbox (it must succeed there, or "refused" proves nothing) and inside the sandbox (it must not), and
decides from outside what got through. See README.md."""

import argparse
import array
import collections
import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import pty
import re
import secrets
import shlex
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

TIMEOUT = 20.0
STRANGER = 54399  # an id that is neither root nor the ordinary user
PASSED, FAILED, NOT_RUN = "passed", "FAILED", "not run"
MUST_ENFORCE = os.environ.get("LAZARET_MUST_ENFORCE") == "1"


# ---- one run of one attack: its own directories, its own secret, its own servers ------------------------


@dataclass
class Identity:
    name: str
    uid: int
    gid: int


@dataclass
class Result:
    code: Optional[int]  # None: did not end in time
    out: str = ""
    err: str = ""

    @property
    def line(self) -> str:
        return self.out.strip().splitlines()[-1] if self.out.strip() else ""


class Stage:
    """Directories of one run. `cwd` is what the sandbox shows; everything else is the host's."""

    def __init__(self, suite: "Suite", who: Identity, inside: bool):
        self.suite, self.who, self.inside = suite, who, inside
        self.secret = "SECRET-" + secrets.token_hex(12)
        self.tag = secrets.token_hex(4)
        self.closers: list[Callable[[], None]] = []
        self.heard: list[str] = []  # what the host's servers saw
        self.found: list[str] = []  # what was seen from outside during the run
        self.prefix: list[str] = []  # commands in front of the sandbox (or of the probe)
        self.env: dict[str, str] = {}
        self.stdin: Optional[int] = None
        self.terminal: Optional[int] = None
        self.master: Optional[int] = None
        self.screen = b""
        self.group: Optional[int] = None
        self.root = suite.base / self.tag
        self.mkdir(self.root, owner=False)
        self.home = self.mkdir(self.root / "home")
        self.cwd = self.mkdir(self.home / "p")
        self.out = self.mkdir(self.root / "outside")
        self.state = self.mkdir(self.root / "state")
        self.config = self.mkdir(self.root / "config")
        self.probe = str(self.cwd / "probe")
        self.copy(suite.probe, self.probe)

    # Files ------------------------------------------------------------------------------------------

    def own(self, path, uid=None, gid=None):
        if os.geteuid() != 0 and uid is not None:
            raise PermissionError("a file of somebody else: needs root")
        if os.geteuid() == 0:
            uid = self.who.uid if uid is None else uid
            os.chown(path, uid, self.who.gid if gid is None else gid, follow_symlinks=False)

    def mkdir(self, path, owner=True, mode=0o755):
        path = Path(path)
        path.mkdir()
        path.chmod(mode)
        if owner:
            self.own(path)
        return path

    def file(self, path, text=None, mode=0o644, uid=None, gid=None):
        path = Path(path)
        for parent in reversed(path.parents):
            if not parent.exists():
                self.mkdir(parent)
        path.write_text(self.secret + "\n" if text is None else text)
        self.own(path, uid, gid)
        path.chmod(mode)
        return str(path)

    def copy(self, source, path, mode=0o755, uid=None):
        shutil.copyfile(source, path)
        self.own(path, uid)
        os.chmod(path, mode)
        return str(path)

    def symlink(self, target, path):
        os.symlink(target, path)
        self.own(path)
        return str(path)

    # The rest of the host ---------------------------------------------------------------------------

    def helper(self, *args):
        """A helper of the probe program, run on the host as the identity of this stage."""
        return subprocess.run(
            [str(self.suite.probe), *args], capture_output=True, text=True, timeout=10,
            stdin=subprocess.DEVNULL, start_new_session=True, **as_user(self.who.uid, self.who.gid),
        )

    def victim(self, in_group=False):
        log, secret = self.root / "victim.log", self.file(self.root / "victim.secret")
        log.touch()
        self.own(log)
        how = {"process_group": 0} if in_group else {"start_new_session": True}
        while True:
            process = subprocess.Popen(
                [str(self.suite.probe), "--victim", self.secret, str(log), secret],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd="/",
                env={"VICTIM_TOKEN": self.secret}, **how, **as_user(self.who.uid, self.who.gid),
            )
            self.closers.append(lambda p=process: end(p))
            address = process.stdout.readline().strip()
            # A small pid could also be one of the few inside a pid namespace of its own.
            if process.pid > 100:
                break
        if in_group:
            self.group = process.pid
        self.victim_log = log
        return str(process.pid), address

    def signalled(self):
        text = self.victim_log.read_text()
        return f"the host's process got {text.strip()}" if text else None

    def give_terminal(self, as_stdin=True, controlling=True):
        master, slave = pty.openpty()
        settings = termios.tcgetattr(slave)
        settings[3] &= ~(termios.ICANON | termios.ECHO)
        termios.tcsetattr(slave, termios.TCSANOW, settings)
        os.set_blocking(master, False)
        self.master, self.closers = master, self.closers + [lambda: os.close(master), lambda: os.close(slave)]
        self.slave = slave
        if as_stdin:
            self.stdin = slave
        if controlling:
            self.terminal = slave

    def pushed_input(self):
        waiting = array.array("i", [0])
        fcntl.ioctl(self.slave, termios.FIONREAD, waiting)
        return f"{waiting[0]} bytes were pushed into the terminal's input" if waiting[0] else None

    def on_screen(self, text):
        with contextlib.suppress(OSError):
            while chunk := os.read(self.master, 4096):
                self.screen += chunk
        return f"the terminal shows {text}" if text.encode() in self.screen else None

    def serve(self, family, kind, address, descriptor=None):
        """A server of the host: says what it heard and answers with the secret (or with a descriptor)."""
        server = socket.socket(family, kind)
        if family in (socket.AF_INET, socket.AF_INET6):
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                server.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 5)
        server.bind(address)
        if family == socket.AF_UNIX and not address.startswith("\0"):
            os.chmod(address, 0o777)
        server.settimeout(0.2)
        done = threading.Event()

        def answer():
            while not done.is_set():
                try:
                    if kind == socket.SOCK_DGRAM:
                        data, peer = server.recvfrom(4096)
                        self.heard.append(f"the host's server heard {data!r}")
                        if peer and family != socket.AF_UNIX:
                            server.sendto(self.secret.encode() + b"\n", peer)
                        continue
                    link, _ = server.accept()
                    self.heard.append("the host's server got a connection")
                    with link:
                        link.settimeout(2)
                        link.recv(4096)
                        if descriptor:
                            with open(descriptor, "rb") as handed:
                                socket.send_fds(link, [b"x"], [handed.fileno()])
                        else:
                            link.sendall(self.secret.encode() + b"\n")
                except TimeoutError:
                    continue
                except OSError:
                    if done.is_set():
                        return

        if kind != socket.SOCK_DGRAM:
            server.listen(16)
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()

        def close():
            done.set()
            thread.join(3)
            server.close()

        self.closers.append(close)
        return server.getsockname()

    def heard_anything(self):
        time.sleep(0.02)
        return self.heard[0] if self.heard else None

    def seen(self):
        return self.found[0] if self.found else None

    def close(self):
        for closer in reversed(self.closers):
            with contextlib.suppress(OSError):
                closer()
        self.closers = []


def end(process):
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process.wait()
    if process.stdout:
        process.stdout.close()


def as_user(uid, gid):
    if os.geteuid() != 0:
        return {}
    return {"user": uid, "group": gid, "extra_groups": []}


# ---- looking from outside -------------------------------------------------------------------------------


def snapshot(path):
    """Everything about a tree that an attack could change; times of access and of directories excepted."""
    seen = {}

    def visit(item):
        try:
            info = os.lstat(item)
        except FileNotFoundError:
            return
        about = [stat.S_IFMT(info.st_mode), stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid]
        if stat.S_ISREG(info.st_mode):
            about += [info.st_mtime_ns, hashlib.sha256(Path(item).read_bytes()).hexdigest()]
            with contextlib.suppress(OSError):
                about.append(sorted(os.listxattr(item, follow_symlinks=False)))
        elif stat.S_ISLNK(info.st_mode):
            about.append(os.readlink(item))
        seen[str(item)] = about
        if stat.S_ISDIR(info.st_mode):
            for entry in sorted(os.listdir(item)):
                visit(os.path.join(item, entry))

    visit(str(path))
    return seen


def differences(before, after):
    for path in sorted(before.keys() | after.keys()):
        if path not in after:
            yield path, "is gone"
        elif path not in before:
            yield path, "appeared"
        elif before[path] != after[path]:
            yield path, "changed"


def processes():
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                yield int(entry), [word.decode(errors="replace") for word in words]


def mentioning(path):
    return [pid for pid, words in processes() if pid != os.getpid() and any(str(path) in word for word in words)]


def members(session):
    return [pid for pid, _ in processes() if session_of(pid) == session]


def session_of(pid):
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return None


def adopt_orphans():
    """What a sandbox leaves behind becomes our child, so that no name or new session hides it."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def orphans():
    """Called when everything that was started on purpose has been waited for."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    found = []
    for pid, _ in processes():
        with contextlib.suppress(OSError):
            if status_of(pid)["PPid"] == [str(os.getpid())]:
                found.append(pid)
    return found


def describe(pid):
    with contextlib.suppress(OSError):
        return f"process {pid} ({status_of(pid)['Name'][0]})"
    return f"process {pid}"


def kill_all(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def status_of(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line.split(":", 1)[0]: line.split(":", 1)[1].split() for line in lines if ":" in line}


def mounts():
    """Without the mount ids, which a remount may renumber."""
    return sorted(line.split(" ", 2)[2] for line in Path("/proc/self/mountinfo").read_text().splitlines())


def kernel_settings():
    names = ["kernel/core_pattern", "kernel/hostname", "kernel/domainname", "kernel/randomize_va_space", "user/max_user_namespaces"]
    return {name: Path("/proc/sys", name).read_text() for name in names if Path("/proc/sys", name).exists()}


def own_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))
        return probe.getsockname()[0]
    return "127.0.0.1"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# ---- the cases ------------------------------------------------------------------------------------------


@dataclass
class Case:
    """`setup(stage)` prepares the host and returns the arguments of the probe.

    controls  where the attack is shown to work, the first that will do: `plain` as the same user, `boxed`
              in throw-away namespaces (a user namespace among them unless it is root), `boxed-net` with a
              network of its own, `userns` with a user namespace even for root, `init` the same as `boxed`
              under a pid 1 of ours, `root` as root
    control   another way to run it there: control(stage, command) -> command
    outside   what the host noticed, or None; must notice in the control run, must not for the sandbox
    exit_counts  whether the probe's own word is evidence (not where success inside may be harmless)
    leaks     the secret has to be in the output of the control run
    flags     of `lazaret run`
    may_change  patterns of names below the working directory that may appear, change or go
    during    during(stage, process), while the attack runs
    """

    setup: Callable[[Stage], list]
    controls: tuple = ("plain",)
    control: Optional[Callable] = None
    outside: Optional[Callable[[Stage], Optional[str]]] = None
    watch: Optional[Callable[[Stage], Path]] = None
    exit_counts: bool = True
    leaks: bool = False
    flags: Callable[[Stage], list] = field(default=lambda stage: [])
    may_change: str = r"$^"
    during: Optional[Callable] = None
    ends_by_signal: bool = False


CASES: dict[str, Case] = {}


def case(name, *args, setup=None, **rest):
    """A case with fixed arguments, or with the arguments that `setup` makes."""
    assert name not in CASES, name
    CASES[name] = Case(setup=setup or (lambda stage: list(args)), **rest)


ROOT = ("plain", "root")  # needs privilege: an ordinary user's attack is shown to work as root
BOX = ("boxed",)

# procfs, sysfs, cgroupfs

case("core-pattern-write", "/proc/sys/kernel/core_pattern", controls=ROOT)
case("sysctl-hostname", "/proc/sys/kernel/hostname", controls=("boxed", "root"))
case("sysctl-ns-last-pid", "/proc/sys/kernel/ns_last_pid", controls=BOX)
case("sysctl-randomize", "/proc/sys/kernel/randomize_va_space", controls=ROOT)
case("sysctl-poweroff-cmd", "/proc/sys/kernel/poweroff_cmd", controls=ROOT)
case("sysctl-max-userns", "/proc/sys/user/max_user_namespaces", controls=("plain", "userns"))
case("sysrq-trigger", "/proc/sysrq-trigger", controls=ROOT)
case("irq-affinity", "/proc/irq/default_smp_affinity", controls=ROOT)
case("kcore", "/proc/kcore", controls=ROOT)
case("kmsg-proc", "/proc/kmsg", controls=ROOT)
case("timer-list", "/proc/timer_list", controls=ROOT)
case("slabinfo", "/proc/slabinfo", controls=ROOT)
case("kallsyms", "/proc/kallsyms", controls=ROOT)
case("iomem", "/proc/iomem", controls=ROOT)
case("sysfs-read")
case("sysfs-write", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/uevent_helper", "/sys/kernel/profiling",
     "/sys/power/state", controls=ROOT)
case("cgroup-release-agent", controls=ROOT)
case("cgroup-procs-write", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs",
     controls=ROOT)


def inherited_key(stage):
    stage.prefix = [str(stage.suite.probe), "--with-key", "lazaret-" + stage.tag, stage.secret]
    return ["lazaret-" + stage.tag]


case("proc-keys", setup=lambda s: ["/proc/keys", *inherited_key(s)])


def outside_secret(*before):
    return lambda stage: [*before, stage.file(stage.out / "secret")]


case("proc-self-root", setup=outside_secret("/proc/self/root"), leaks=True)
case("proc-1-root", setup=outside_secret("/proc/1/root"), controls=("init",), leaks=True)
case("proc-1-cwd", setup=outside_secret("/proc/1/cwd"), controls=("init",), leaks=True)


def secret_in_environment(*args):
    def setup(stage):
        stage.env["SECRET_TOKEN"] = stage.secret
        return list(args)

    return setup


case("proc-1-environ", setup=secret_in_environment("1", "environ"), controls=("init",), leaks=True)
case("proc-1-mem", setup=secret_in_environment(), controls=("init",), leaks=True)
case("proc-1-exe-write", controls=("init",))


def secret_descriptor(number, *args):
    def setup(stage):
        target = stage.file(stage.out / "secret")
        stage.prefix = [str(stage.suite.probe), "--with-fd", str(number), target]
        return list(args)

    return setup


def any_environ(stage):
    stage.env["SECRET_TOKEN"] = stage.secret
    stage.victim()
    return ["environ"]


case("proc-any-fd", setup=secret_descriptor(9, "fd"), controls=("init",), leaks=True)
case("proc-any-environ", setup=any_environ, controls=("init",), leaks=True)
case("proc-host-pid", setup=lambda s: [s.victim()[0], str(s.victim_log)])
case("proc-host-environ", setup=lambda s: [s.victim()[0], "environ"], leaks=True)
case("proc-host-fd", setup=lambda s: [s.victim()[0], "fd/50"], leaks=True)
case("proc-host-mem", setup=lambda s: list(s.victim()), leaks=True)

# terminal


def terminal(*args, **how):
    def setup(stage):
        stage.give_terminal(**how)
        return list(args)

    return setup


def console(*args):
    def setup(stage):
        for name in ("/dev/tty1", "/dev/tty0"):
            with contextlib.suppress(OSError):
                stage.stdin = os.open(name, os.O_RDWR | os.O_NOCTTY)
                stage.closers.append(lambda: os.close(stage.stdin))
                break
        return list(args)

    return setup


def dev_tty(stage):
    stage.give_terminal(as_stdin=False)
    return ["MARK-" + stage.tag]


def terminal_taken(stage):
    # The session of a taker that has ended is gone again, so ask the taker's exit status as well.
    with contextlib.suppress(OSError):
        return f"the terminal belongs to session {struct.unpack('i', fcntl.ioctl(stage.master, termios.TIOCGSID, bytes(4)))[0]}"
    return None


case("tiocsti", setup=terminal("plain"), outside=Stage.pushed_input, controls=ROOT)
case("tiocsti-high-bits", setup=terminal("high"), outside=Stage.pushed_input, controls=ROOT)
case("tioclinux", setup=console("plain"), controls=ROOT)
case("tioclinux-high-bits", setup=console("high"), controls=ROOT)
case("dev-tty", setup=dev_tty, outside=lambda s: s.on_screen("MARK-" + s.tag), exit_counts=False)
case("tiocsctty", setup=terminal(controlling=False))

# inherited descriptors and environment

for number in (3, 9, 25, 200):
    case(f"fd-{number}", setup=secret_descriptor(number, str(number)), leaks=True)


def directory_descriptor(number):
    def setup(stage):
        stage.file(stage.out / "secret")
        sub = stage.mkdir(stage.out / "sub")
        stage.prefix = [str(stage.suite.probe), "--with-fd", str(number), str(sub)]
        return [str(number), "../secret"]

    return setup


def inherited_socket(stage):
    path = str(stage.out / "sock")
    stage.serve(socket.AF_UNIX, socket.SOCK_STREAM, path)
    stage.prefix = [str(stage.suite.probe), "--with-fd", "17", path]
    return ["17"]


def inherited_namespace(stage):
    stage.prefix = [str(stage.suite.probe), "--with-fd", "18", "/proc/self/ns/uts"]
    return ["18"]


def readable_stdin(stage):
    path = stage.file(stage.out / "input", "only for reading\n")
    stage.stdin = os.open(path, os.O_RDONLY)
    stage.closers.append(lambda: os.close(stage.stdin))
    return []


case("fd-directory-fchdir", setup=directory_descriptor(11), leaks=True)
case("fd-directory-openat", setup=directory_descriptor(11), leaks=True)
case("stdin-directory", setup=directory_descriptor(0), leaks=True)
case("stdin-directory-fchdir", setup=directory_descriptor(0), leaks=True)
# The connection itself is made on the host; only what is said on it counts.
case("fd-socket", setup=inherited_socket)
case("fd-namespace", setup=inherited_namespace, controls=ROOT)
case("stdin-reopen-write", setup=readable_stdin, watch=lambda s: s.out)


def variable(name, value="{}"):
    def setup(stage):
        stage.env[name] = value.format(stage.secret)
        return [name]

    return setup


case("env-secret-token", setup=variable("SECRET_TOKEN"), leaks=True)
case("env-ssh-auth-sock", setup=variable("SSH_AUTH_SOCK", "/nowhere/{}/agent"), leaks=True)
case("env-ld-preload", setup=variable("LD_PRELOAD", "/nowhere/{}.so"), leaks=True)
case("env-ld-library-path", setup=variable("LD_LIBRARY_PATH", "/nowhere/{}"), leaks=True)
case("env-node-options", setup=variable("NODE_OPTIONS", "--require /nowhere/{}.js"), leaks=True)
case("env-git-ssh-command", setup=variable("GIT_SSH_COMMAND", "ssh -i {}"), leaks=True)
case("env-bash-env", setup=variable("BASH_ENV", "/nowhere/{}"), leaks=True)
case("env-aws-secret", setup=variable("AWS_SECRET_ACCESS_KEY"), leaks=True)
case("env-github-token", setup=variable("GITHUB_TOKEN"), leaks=True)
case("env-dbus-session", setup=variable("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere/{}"), leaks=True)
case("env-python-startup", setup=variable("PYTHONSTARTUP", "/nowhere/{}.py"), leaks=True)

# unix sockets


def unix(kind, where="cwd", *before, name="host.sock", named=None, descriptor=False):
    """A server at stage.<where>/name; `named` is the name that the attack uses for it."""

    def setup(stage):
        directory = getattr(stage, where) if where != "run" else stage.mkdir(stage.root / "run")
        path = str(directory / name)
        stage.serve(socket.AF_UNIX, kind, path, stage.file(stage.out / "handed") if descriptor else None)
        return [*before, named(stage, path) if named else path]

    return setup


def abstract(kind, *before):
    def setup(stage):
        stage.serve(socket.AF_UNIX, kind, "\0lazaret-" + stage.tag)
        return [*before, "@lazaret-" + stage.tag]

    return setup


def case_unix(name, setup, **rest):
    case(name, setup=setup, outside=Stage.heard_anything, **rest)


case_unix("unix-stream", unix(socket.SOCK_STREAM), leaks=True)
case_unix("unix-seqpacket", unix(socket.SOCK_SEQPACKET), leaks=True)
for call in ("sendto", "sendmsg", "sendmmsg", "connect"):
    case_unix(f"unix-dgram-{call}", unix(socket.SOCK_DGRAM, "cwd", call))
case_unix("unix-outside", unix(socket.SOCK_STREAM, "out"), leaks=True)
case_unix("unix-home-agent", unix(socket.SOCK_STREAM, "home", name="agent.1"), leaks=True)
case_unix("unix-docker-ro", unix(socket.SOCK_STREAM, "run", name="docker.sock"), leaks=True,
          flags=lambda s: ["--ro", str(s.root / "run")])
case_unix("unix-symlink", unix(socket.SOCK_STREAM, named=lambda s, path: s.symlink(path, s.cwd / "alias")), leaks=True)
case_unix("unix-proc-cwd", unix(socket.SOCK_STREAM, named=lambda s, path: "/proc/self/cwd/host.sock"), leaks=True)
case_unix("unix-proc-fd", unix(socket.SOCK_STREAM), leaks=True)
case_unix("unix-scm-rights", unix(socket.SOCK_STREAM, descriptor=True), leaks=True)
case_unix("unix-abstract-stream", abstract(socket.SOCK_STREAM), leaks=True)
case_unix("unix-abstract-dgram", abstract(socket.SOCK_DGRAM, "sendto"))
case_unix("unix-int80", unix(socket.SOCK_STREAM), leaks=True)


def unix_race(stage):
    path = unix(socket.SOCK_STREAM, name="host.sock")(stage)[0]
    return [str(stage.cwd / "mine.sock"), path, "2" if stage.inside else "1"]


case_unix("unix-race", unix_race, may_change=r"mine\.sock")

# system calls


def shell(script):
    """Runs `script` before the attack, in the throw-away namespaces; $D is the working directory."""
    return lambda stage, command: ["sh", "-c", f'D="$1"; shift; {script}; exec "$@"', "sh", str(stage.cwd), *command]


def mountpoint(stage):
    return [str(stage.mkdir(stage.cwd / "mnt"))]


def overlay(stage):
    return [str(stage.mkdir(stage.cwd / name)) for name in ("mnt", "lower", "upper", "work")]


for name in ("ptrace-traceme", "ptrace-sibling", "process-vm-readv-sibling", "pidfd-getfd-sibling", "kcmp", "perf-event-open", "io-uring",
             "userfaultfd", "keyctl", "name-to-handle-at", "clock-settime", "x32", "int80", "personality", "modify-ldt", "fanotify-init",
             "quotactl", "netlink-interfaces", "no-new-privs", "clone-user", "clone3-user"):
    case(name)
for name in ("bpf", "kexec-load", "kexec-file-load", "init-module", "finit-module", "delete-module", "swapon", "swapoff", "reboot", "acct",
             "syslog", "iopl", "ioperm", "settimeofday", "adjtimex", "vhangup", "rlimit-raise", "nice-negative", "sched-fifo", "ping"):
    case(name, controls=ROOT)
for name in ("setns", "fsopen", "fsmount", "fspick", "open-tree", "open-tree-attr", "mount-setattr"):
    case(name, controls=BOX)
case("mount", setup=mountpoint, controls=BOX)
case("mount-high-bits", setup=mountpoint, controls=BOX)
case("mount-proc", setup=mountpoint, controls=BOX)
case("mount-overlay", setup=overlay, controls=BOX, may_change=r"work/.*")
case("move-mount", setup=mountpoint, controls=BOX)
case("umount", setup=mountpoint, controls=BOX)
case("pivot-root", setup=mountpoint, controls=BOX)
case("chroot", setup=mountpoint, controls=BOX)
case("sethostname", controls=BOX)
case("setdomainname", controls=BOX)
case("add-key", setup=lambda s: ["lazaret-" + s.tag],
     outside=lambda s: "the key is in the host's keyring" if s.helper("--key-take", "lazaret-" + s.tag).returncode == 0 else None)
case("request-key", setup=inherited_key, leaks=True)
case("open-by-handle-at", setup=lambda s: [s.helper("--handle", s.file(s.out / "secret")).stdout.strip(), str(s.cwd)], controls=ROOT, leaks=True)
for name, numbers, controls in (
    ("vsock", (40, 1, 0), ("plain",)),
    ("packet", (17, 3, 0), ("boxed-net",)),
    ("alg", (38, 5, 0), ("plain",)),
    ("bluetooth", (31, 3, 1), ("plain", "root")),
    ("xdp", (44, 3, 0), ("boxed-net", "root")),
    ("raw-icmp", (2, 3, 1), ("boxed-net",)),
    ("netlink-netfilter", (16, 3, 12), ("plain",)),
    ("netlink-uevent", (16, 3, 15), ("plain",)),
):
    case(f"socket-{name}", *map(str, numbers), controls=controls)


def setuid_bit(how, existing):
    def setup(stage):
        path = stage.cwd / "tool"
        if existing:
            stage.file(path, "#!/bin/sh\n", 0o755)
        return [how, str(path)]

    return setup


def has_bit(stage):
    path = stage.cwd / "tool"
    mode = path.stat().st_mode if path.exists() else 0
    return f"the file has mode {mode & 0o7777:o}" if mode & 0o6000 else None


for how in ("chmod", "fchmod", "fchmodat", "fchmodat2", "open", "creat", "openat2", "mknod"):
    case(f"suid-{how}", setup=setuid_bit(how, "chmod" in how), outside=has_bit, may_change="tool")
case("sgid-chmod", setup=setuid_bit("setgid", True), outside=has_bit, may_change="tool")
for kind in ("char", "block"):
    case(f"mknod-{kind}", setup=lambda s, kind=kind: [kind[0], str(s.cwd / "node")], controls=ROOT,
         outside=lambda s: "the node exists" if os.path.lexists(s.cwd / "node") else None)
case("file-capability", setup=lambda s: [s.file(s.cwd / "tool", "#!/bin/sh\n", 0o755)], controls=("plain", "boxed"),
     outside=lambda s: "the file has it" if "security.capability" in os.listxattr(s.cwd / "tool") else None)

# capabilities and identity

case("cap-effective", "CapEff", controls=("plain", "boxed"))
case("cap-permitted", "CapPrm", controls=("plain", "boxed"))
case("cap-bounding", "CapBnd")


def someone_else(stage):
    """Whom the attacker would like to be: root, or for root somebody else."""
    return STRANGER if stage.who.uid == 0 else 0


def file_of_another(stage, mode=0o600):
    return stage.file(stage.cwd / "theirs", mode=mode, uid=someone_else(stage), gid=someone_else(stage))


case("become-uid", setup=lambda s: ["uid", str(someone_else(s)), file_of_another(s)], controls=ROOT, leaks=True)
case("become-gid", setup=lambda s: ["gid", str(someone_else(s)), file_of_another(s, 0o040)], controls=ROOT, leaks=True)
case("become-group", setup=lambda s: ["groups", str(someone_else(s)), file_of_another(s, 0o040)], controls=ROOT, leaks=True)
case("dac-override", setup=lambda s: [file_of_another(s)], controls=ROOT, leaks=True)
case("suid-binary", setup=lambda s: [s.copy(s.suite.probe, s.cwd / "tool", 0o4755, someone_else(s)), "secret", file_of_another(s)], leaks=True)


def capable_copy(stage):
    path = stage.copy(stage.suite.probe, stage.cwd / "tool")
    os.setxattr(path, "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))
    return [path, "capability", "-"]


case("filecap-binary", setup=capable_copy)
case("chown-other", setup=lambda s: [s.file(s.cwd / "mine", "x"), str(STRANGER)], controls=ROOT,
     outside=lambda s: "it has another owner" if (s.cwd / "mine").stat().st_uid == STRANGER else None)


def inside_process(stage):
    """The probe itself, as the host sees it: not the sandbox, whose command line also names it."""
    limit = time.monotonic() + 5
    while time.monotonic() < limit:
        for pid, words in processes():
            if words[0] == stage.probe:
                return pid
        time.sleep(0.02)
    return None


def look(check):
    def during(stage, process):
        with contextlib.suppress(OSError):
            pid = inside_process(stage)
            if pid is None:
                stage.found.append("the probe was never seen from outside")
            else:
                stage.found += check(pid)

    return during


def uid_zero(pid):
    here, there = os.stat("/proc/self/ns/pid").st_ino, os.stat(f"/proc/{pid}/ns/pid").st_ino
    for other, words in processes():
        with contextlib.suppress(OSError):
            if other == pid or (there != here and os.stat(f"/proc/{other}/ns/pid").st_ino == there):
                if "0" in status_of(other)["Uid"]:
                    yield f"{words[0]} has uid 0 on the host"


def shared_namespaces(pid):
    for name in ("user", "mnt", "pid", "net", "ipc", "uts"):
        if os.stat(f"/proc/self/ns/{name}").st_ino == os.stat(f"/proc/{pid}/ns/{name}").st_ino:
            yield f"the {name} namespace is the host's"


def unfiltered(pid):
    status = status_of(pid)
    if status["Seccomp"] != ["2"]:
        yield "no seccomp filter"
    if status["NoNewPrivs"] != ["1"]:
        yield "may gain privileges"


case("host-uid-zero", "1", controls=ROOT, during=look(uid_zero), outside=Stage.seen, exit_counts=False)
case("host-namespaces", "1", during=look(shared_namespaces), outside=Stage.seen, exit_counts=False)
case("host-unfiltered", "1", during=look(unfiltered), outside=Stage.seen, exit_counts=False)

# namespaces, other processes

for name, flag in (("user", 0x10000000), ("user-mount", 0x10020000)):
    case(f"unshare-{name}", hex(flag))
for name, flag in (("mount", 0x20000), ("pid", 0x20000000), ("net", 0x40000000), ("uts", 0x4000000), ("ipc", 0x8000000),
                   ("cgroup", 0x2000000), ("time", 0x80)):
    case(f"unshare-{name}", hex(flag), controls=BOX)
case("setns-host", setup=lambda s: [s.victim()[0]], controls=ROOT)
for name, call in (("kill", "kill"), ("tgkill", "tgkill"), ("sigqueue", "sigqueue"), ("pidfd-signal", "pidfd")):
    case(f"{name}-host", setup=lambda s, call=call: [call, s.victim()[0]], outside=Stage.signalled)


def shared_group(stage):
    stage.victim(in_group=True)
    return []


def watched_parent(stage):
    stage.victim_log = stage.root / "parent.log"
    stage.victim_log.touch()
    stage.own(stage.victim_log)
    stage.prefix = [str(stage.suite.probe), "--parent", str(stage.victim_log)]
    return []


case("kill-group", setup=shared_group, outside=Stage.signalled, exit_counts=False)
case("kill-parent", setup=watched_parent, outside=Stage.signalled, exit_counts=False)
case("ptrace-host", setup=lambda s: [s.victim()[0]])
case("process-vm-readv-host", setup=lambda s: list(s.victim()), leaks=True)
case("pidfd-getfd-host", setup=lambda s: [s.victim()[0], "50"], leaks=True)
case("prlimit-host", setup=lambda s: [s.victim()[0]])


def shared_memory(stage):
    key = hex(0x4C000000 + int(stage.tag[:6], 16))
    stage.helper("--shm-make", key, stage.secret)
    stage.closers.append(lambda: stage.helper("--shm-drop", key))
    return [key]


def message_queue(stage):
    name = "/lazaret-" + stage.tag
    stage.helper("--mq-make", name, stage.secret)
    stage.closers.append(lambda: stage.helper("--mq-drop", name))
    return [name]


def posix_memory(stage):
    path = stage.file(f"/dev/shm/lazaret-{stage.tag}")
    stage.closers.append(lambda: os.unlink(path))
    return [path]


case("sysv-shm", setup=shared_memory, leaks=True)
case("posix-mq", setup=message_queue, leaks=True)
case("posix-shm", setup=posix_memory, leaks=True)

# network


def server(family, kind, bind, said):
    def setup(stage):
        address = own_address() if said is None else said
        return [address, str(stage.serve(family, kind, (bind or address, 0))[1])]

    return setup


for name, family, kind, bind, said in (
    ("tcp-loopback", socket.AF_INET, socket.SOCK_STREAM, "127.0.0.1", "127.0.0.1"),
    ("tcp-fastopen", socket.AF_INET, socket.SOCK_STREAM, "127.0.0.1", "127.0.0.1"),
    ("tcp-loopback6", socket.AF_INET6, socket.SOCK_STREAM, "::1", "::1"),
    ("tcp-mapped", socket.AF_INET, socket.SOCK_STREAM, "127.0.0.1", "::ffff:127.0.0.1"),
    ("tcp-any-address", socket.AF_INET, socket.SOCK_STREAM, "127.0.0.1", "0.0.0.0"),
    ("tcp-own-address", socket.AF_INET, socket.SOCK_STREAM, None, None),
    ("udp-loopback", socket.AF_INET, socket.SOCK_DGRAM, "127.0.0.1", "127.0.0.1"),
    ("udp-loopback6", socket.AF_INET6, socket.SOCK_DGRAM, "::1", "::1"),
):
    case(name, setup=server(family, kind, bind, said), outside=Stage.heard_anything, leaks=True)


def knock(port_of):
    """Tries to reach a port that the probe opened, as a client on the host."""

    def during(stage, process):
        limit = time.monotonic() + 1.2
        while time.monotonic() < limit and process.poll() is None:
            with contextlib.suppress(OSError, ValueError):
                with socket.create_connection(("127.0.0.1", port_of(stage)), timeout=0.3):
                    stage.found.append("the host reached a port of the sandbox")
                    return
            time.sleep(0.05)

    return during


def listen_port(stage):
    stage.port = free_port()
    return [str(stage.port)]


case("listen-port", setup=listen_port, during=knock(lambda s: s.port), outside=Stage.seen)
case("listen-without-bind", setup=lambda s: [str(s.cwd / "port")], during=knock(lambda s: int((s.cwd / "port").read_text())),
     outside=Stage.seen, may_change="port")

# files outside the view


def dotdot(stage):
    stage.file(stage.out / "secret")
    return ["../../outside/secret"]


case("read-absolute", setup=outside_secret(), leaks=True)
case("read-dotdot", setup=dotdot, leaks=True)
case("read-symlink", setup=lambda s: [s.symlink(s.file(s.out / "secret"), s.cwd / "alias")], leaks=True)
case("read-own-symlink", setup=lambda s: [s.file(s.out / "secret"), str(s.cwd / "alias")], leaks=True)
case("read-hardlink", setup=lambda s: [s.file(s.out / "secret"), str(s.cwd / "alias")], leaks=True)
case("read-proc-cwd", setup=outside_secret("/proc/self/cwd"), leaks=True)
case("read-proc-fd", setup=outside_secret(), leaks=True)
case("stat-outside", setup=outside_secret())
case("list-outside", setup=lambda s: [s.file(s.out / "secret").rpartition("/")[0], "secret"])
case("write-absolute", setup=outside_secret(), watch=lambda s: s.out)
case("write-symlink", setup=lambda s: [s.symlink(s.file(s.out / "secret"), s.cwd / "alias")], watch=lambda s: s.out)
case("create-outside", setup=lambda s: ["open", str(s.out / "new")], watch=lambda s: s.out, exit_counts=False)
case("chmod-outside", setup=outside_secret(), watch=lambda s: s.out)
case("open-usr-write", "/usr/bin/env", controls=ROOT)


def create_in(directory):
    """In the real directory for the sandbox, below a directory of ours for the control run."""

    def setup(stage):
        name = f"{directory}/lazaret-escape-{stage.tag}"
        stage.jail = stage.mkdir(stage.cwd / "jail")
        if directory:
            stage.mkdir(Path(f"{stage.jail}{directory}"))
        stage.copy(stage.suite.probe, stage.jail / "probe")
        stage.made = Path(name if stage.inside else f"{stage.jail}{name}")
        stage.closers.append(lambda: stage.made.unlink(missing_ok=True))
        return ["open", name]

    return setup


def jailed(stage, command):
    return ["chroot", str(stage.jail), "/probe", *command[1:]]


for name, directory in (("etc", "/etc"), ("usr", "/usr"), ("root", "")):
    case(f"create-{name}", setup=create_in(directory), controls=BOX, control=jailed, exit_counts=False,
         outside=lambda s: f"{s.made} exists on the host" if s.made.exists() else None)

case("home-ssh-key", setup=lambda s: [s.file(s.home / ".ssh/id_rsa", mode=0o600)], leaks=True)


def cargo_credentials(stage):
    stage.file(stage.home / ".cargo/bin/tool", "#!/bin/sh\n", 0o755)
    return [stage.file(stage.home / ".cargo/credentials.toml", mode=0o600)]


case("home-cargo-credentials", setup=cargo_credentials, leaks=True)
case("home-other-user", setup=lambda s: [s.file(s.root / "other/.ssh/id_rsa", uid=STRANGER if os.geteuid() == 0 else None)], leaks=True)
case("home-list", setup=lambda s: [s.file(s.home / "private.txt").rpartition("/")[0], "private.txt"])
case("home-bashrc-write", setup=lambda s: [s.file(s.home / ".bashrc")], watch=lambda s: s.home / ".bashrc")
case("home-tool-write", setup=lambda s: [s.file(s.home / ".local/bin/tool", mode=0o755)], watch=lambda s: s.home / ".local")

# --deny on a file that exists: cwd/d/denied, with a neighbour that is allowed


def deny(path):
    return lambda stage: ["--deny", str(stage.cwd / path)]


def denied_file(*args):
    def setup(stage):
        stage.file(stage.cwd / "d/denied")
        stage.file(stage.cwd / "d/allowed", "allowed\n")
        return [str(stage.cwd / arg[1:]) if arg.startswith("=") else arg for arg in args]

    return setup


def case_deny(name, *args, leaks=False, writes=False, **rest):
    watch = (lambda s: s.cwd / "d/denied") if writes else None
    case(name, setup=denied_file(*args), leaks=leaks, watch=watch, flags=deny("d/denied"), **rest)


case_deny("deny-read", "=d/denied", leaks=True)
case_deny("deny-read-symlink", "=d/denied", "=alias", leaks=True)
case_deny("deny-read-proc-cwd", "/proc/self/cwd/d/denied", leaks=True)
case_deny("deny-read-dirfd", "dirfd", "=d", "denied", leaks=True)
case_deny("deny-read-opath", "=d/denied", leaks=True)
case_deny("deny-write", "=d/denied", writes=True)
case_deny("deny-truncate", "=d/denied", writes=True)
case_deny("deny-chmod", "=d/denied", writes=True)
case_deny("deny-rename-over", "=d/allowed", "=d/denied", writes=True)
case_deny("deny-rename-away", "=d/denied", "=d/other", leaks=True, writes=True)
case_deny("deny-exchange", "=d/denied", "=d/allowed", leaks=True, writes=True)
case_deny("deny-unlink", "=d/denied", writes=True)
case_deny("deny-hardlink", "=d/denied", "=alias", leaks=True)
case_deny("deny-parent-rename", "=d", "=e", "denied", leaks=True)
case_deny("deny-parent-swap", "=d", "=e", "denied", writes=True)
case_deny("deny-bind-over", "=d/allowed", "=d/denied", controls=BOX)


def denied_directory(*args):
    def setup(stage):
        stage.file(stage.cwd / "d/denied/secret")
        return [str(stage.cwd / arg[1:]) if arg.startswith("=") else arg for arg in args]

    return setup


def case_deny_dir(name, *args, leaks=False, writes=False):
    watch = (lambda s: s.cwd / "d/denied") if writes else None
    case(name, setup=denied_directory(*args), leaks=leaks, watch=watch, flags=deny("d/denied"))


case_deny_dir("deny-dir-list", "=d/denied", "secret")
case_deny_dir("deny-dir-read", "=d/denied/secret", leaks=True)
case_deny_dir("deny-dir-chdir", "chdir", "=d/denied", "secret", leaks=True)
case_deny_dir("deny-dir-create", "open", "=d/denied/new", writes=True)
case_deny_dir("deny-dir-rename", "=d/denied", "=d/other", "secret", leaks=True)
case_deny_dir("deny-dir-swap", "=d/denied", "=d/other", "secret", writes=True)

# --deny of a name that is not there yet: cwd/deny.txt


def case_new(name, *args, denied="deny.txt", controls=("plain",), may_change=r"$^", probe_args=None, **rest):
    """`=` in front of an argument: below the working directory."""

    def setup(stage):
        stage.file(stage.cwd / "there.txt", "there already\n")
        stage.mkdir(stage.cwd / "sub")
        return [str(stage.cwd / arg[1:]) if arg.startswith("=") else arg for arg in args]

    def exists(stage):
        return f"{denied} exists on the host" if os.path.lexists(stage.cwd / denied) else stage.seen()

    case(name, setup=probe_args or setup, flags=deny(denied), outside=exists, controls=controls, may_change=may_change, **rest)


case_new("deny-new-open", "open", "=deny.txt")
case_new("deny-new-creat", "creat", "=deny.txt")
case_new("deny-new-openat2", "openat2", "=deny.txt")
case_new("deny-new-mkdir", "mkdir", "=deny.txt")
case_new("deny-new-mkdir-slash", "mkdir", "=deny.txt/")
case_new("deny-new-rename", "rename", "=deny.txt", "=there.txt")
case_new("deny-new-renameat2", "renameat2", "=deny.txt", "=there.txt")
case_new("deny-new-link", "link", "=deny.txt", "=there.txt")
case_new("deny-new-symlink", "symlink", "=deny.txt", "=there.txt")
case_new("deny-new-fifo", "fifo", "=deny.txt")
case_new("deny-new-mknod", "mknod", "=deny.txt")
case_new("deny-new-bind", "bind", "deny.txt", "=")
case_new("deny-new-dangling", "dangling", "=deny.txt", "=alias", may_change="alias")
case_new("deny-new-proc-cwd", "open", "/proc/self/cwd/deny.txt")
case_new("deny-new-dirfd", "dirfd", "../deny.txt", "=sub")
case_new("deny-new-chdir", "chdir", "deny.txt", "=sub", denied="sub/deny.txt")
case_new("deny-new-dotdot", "open", "sub/../deny.txt")
case_new("deny-new-double-slash", "open", ".//sub/..//./deny.txt")
case_new("deny-new-symlinked-parent", "symlinked-parent", "deny.txt", "=sub", denied="sub/deny.txt", may_change=r"sub\.alias")
case_new("deny-new-tmpfile", "tmpfile", "=deny.txt", "=sub")
case_new("deny-new-page-edge", "page-edge", "=deny.txt")
case_new("deny-new-long-path", "long-path", "deny.txt")
case_new("deny-new-int80", "deny.txt")
case_new("deny-new-below-new", "mkdir-then-open", "=new/deny.txt", "=new", denied="new/deny.txt", may_change="new")
case_new("deny-new-directory-rename", "directory-rename", "=new/deny.txt", "=new", denied="new/deny.txt",
         may_change=r"new|new\.other(/deny\.txt)?")
case_new("deny-new-race", may_change=r"(?!deny)[od][ke][an]y\.txt",
         probe_args=lambda s: [str(s.cwd / "okay.txt"), str(s.cwd / "deny.txt"), "2" if s.inside else "1"])


def kill_supervisor(stage, process):
    if stage.inside:
        time.sleep(0.7)
        process.kill()
        time.sleep(1)
        if any(words[0] == stage.probe for _, words in processes()):
            stage.found.append("the probe went on for a second after the sandbox was killed")


case_new("deny-new-supervisor-killed", "keep-trying", "=deny.txt", during=kill_supervisor, ends_by_signal=True)


def host_creates(stage, process):
    time.sleep(0.5)
    stage.file(stage.cwd / "deny.txt")


case("deny-new-host-creates", setup=lambda s: [str(s.cwd / "deny.txt"), "2.5"], flags=deny("deny.txt"), during=host_creates, leaks=True,
     may_change=r"deny\.txt")

# --ro: root/ro outside the working directory, and cwd/p/ro inside it


def read_only(*args):
    def setup(stage):
        stage.ro = stage.mkdir(stage.root / "ro")
        stage.file(stage.ro / "data", "original\n")
        stage.file(stage.cwd / "there.txt", "there already\n")
        return [str(stage.ro / arg[1:]) if arg.startswith("=") else str(stage.cwd / arg[1:]) if arg.startswith("+") else arg for arg in args]

    return setup


def ro_flags(stage):
    return ["--ro", str(stage.ro)]


def case_ro(name, *args, setup=None, **rest):
    case(name, setup=setup or read_only(*args), flags=ro_flags, watch=lambda s: s.ro, **rest)


case_ro("ro-write", "=data")
case_ro("ro-truncate", "=data")
case_ro("ro-chmod", "=data")
case_ro("ro-utimes", "=data")
case_ro("ro-setxattr", "=data")
case_ro("ro-rename", "=data", "=other")
case_ro("ro-unlink", "=data")
case_ro("ro-create", "open", "=new")
case_ro("ro-mkdir", "mkdir", "=new")
case_ro("ro-tmpfile", "tmpfile", "=new", "=")
case_ro("ro-rename-into", "rename", "=new", "+there.txt")
case_ro("ro-hardlink-write", "=data", "+alias")
case_ro("ro-reopen-write", "=data")


def ro_symlink(stage):
    data = read_only("=data")(stage)[0]
    return [stage.symlink(data, stage.cwd / "alias")]


def nested(*args):
    def setup(stage):
        stage.mkdir(stage.cwd / "q")
        stage.ro = stage.mkdir(stage.cwd / "q/ro")
        stage.file(stage.ro / "data", "original\n")
        return [str(stage.cwd / arg[1:]) if arg.startswith("+") else arg for arg in args]

    return setup


case_ro("ro-symlink-write", setup=ro_symlink)
case_ro("ro-nested-write", setup=nested("+q/ro/data"))
case_ro("ro-nested-parent-rename", setup=nested("+q", "+r", "ro/data"))
case_ro("ro-nested-parent-swap", setup=nested("+q/ro", "+q/aside", "data"))
case_ro("ro-remount", setup=lambda s: [nested()(s) and "" or str(s.cwd / "q/ro"), str(s.cwd / "q/ro/data")], controls=BOX,
        control=shell('mount --bind "$D/q/ro" "$D/q/ro" && mount -o remount,bind,ro "$D/q/ro"'))

# devices


def disks():
    for line in Path("/proc/partitions").read_text().splitlines()[2:]:
        yield "/dev/" + line.split()[3]
    yield "/dev/loop0"


case("dev-mem", "/dev/mem", controls=ROOT)
case("dev-kmsg", "/dev/kmsg", controls=ROOT)
case("dev-disk", setup=lambda s: list(disks()), controls=ROOT)
case("dev-fuse", "/dev/fuse", controls=ROOT)
case("dev-kvm", "/dev/kvm", controls=ROOT)
case("dev-tun", "/dev/net/tun", controls=ROOT)
case("dev-loop-control", "/dev/loop-control", controls=ROOT)
case("dev-console", "/dev/console", "/dev/tty0", controls=ROOT)
case("dev-port", "/dev/port", controls=ROOT)


# ---- running ---------------------------------------------------------------------------------------------


@dataclass
class Verdict:
    name: str
    group: str
    who: str
    outcome: str
    shown: str  # where it was shown to work
    note: str


class Suite:
    def __init__(self, options):
        self.options = options
        self.base = Path(tempfile.mkdtemp(prefix="lz-", dir=options.tmp))
        self.base.chmod(0o755)
        self.probe = self.base / "probe"
        shutil.copyfile(options.probe, self.probe)
        self.probe.chmod(0o755)
        self.sandbox: dict[str, str] = {}
        self.groups = dict(line.split("\t") for line in subprocess.check_output([self.probe, "--list"], text=True).splitlines())

    def sandbox_for(self, who):
        """A copy of the sandbox that this identity owns: reachable, and a prize worth overwriting."""
        if not self.options.lazaret:
            return None
        if self.options.in_place:
            return os.path.abspath(self.options.lazaret)
        path = self.base / f"bin-{who.name}" / "lazaret"
        if not path.exists():
            path.parent.mkdir(mode=0o755)
            shutil.copyfile(self.options.lazaret, path)
            path.chmod(0o755)
            if os.geteuid() == 0:
                os.chown(path, who.uid, who.gid)
                os.chown(path.parent, who.uid, who.gid)
        return str(path)

    # How a command is started ---------------------------------------------------------------------------

    def environment(self, stage):
        return {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(stage.home),
            "XDG_STATE_HOME": str(stage.state),
            "XDG_CONFIG_HOME": str(stage.config),
            "LANG": "C",
            **stage.env,
        }

    def run(self, stage, command, uid, gid, during=None):
        def attach_terminal():
            fcntl.ioctl(stage.terminal, termios.TIOCSCTTY, 0)

        process = subprocess.Popen(
            [*stage.prefix, *command], cwd=stage.cwd, env=self.environment(stage), text=True, errors="replace",
            stdin=subprocess.DEVNULL if stage.stdin is None else stage.stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=attach_terminal if stage.terminal is not None else None,
            **({"process_group": stage.group} if stage.group else {"start_new_session": True}),
            **as_user(uid, gid),
        )
        if during:
            during(stage, process)
        try:
            out, err = process.communicate(timeout=TIMEOUT)
            return Result(process.returncode, out, err)
        except subprocess.TimeoutExpired:
            process.kill()
            kill_all(mentioning(stage.root) + (members(process.pid) if not stage.group else []))
            out, err = process.communicate()
            return Result(None, out, err)

    def boxed(self, who, kind):
        command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--uts", "--ipc", "--cgroup"]
        if who.uid != 0 or kind == "userns":
            command += ["--user", "--map-root-user"]
        return command + (["--net"] if kind == "boxed-net" else []) + ["--"]

    def control_command(self, kind, case, stage, command):
        if case.control:
            command = case.control(stage, command)
        if kind == "init":
            return [*self.boxed(stage.who, kind), stage.probe, "--as-init", *command]
        if kind in ("boxed", "boxed-net", "userns"):
            return [*self.boxed(stage.who, kind), *command]
        return command

    def sandbox_command(self, stage, flags, command):
        if self.options.wrap:
            return [*stand_in(self.options.wrap, stage, flags), *command]
        return [self.sandbox_for(stage.who), "run", "--on-escape", "deny", *flags, "--", *command]

    # Without the sandbox ------------------------------------------------------------------------------------

    def show_it_works(self, name, case, who):
        """Returns where the attack succeeded, or None and why not."""
        why = "no way to show it"
        for kind in case.controls:
            as_root = kind == "root"
            if as_root and os.geteuid() != 0:
                why = "needs root to be shown to work"
                continue
            if as_root and who.uid == 0:
                continue
            stage = Stage(self, who, inside=False)
            try:
                args = case.setup(stage)
                before = snapshot(case.watch(stage)) if case.watch else None
                command = self.control_command(kind, case, stage, [stage.probe, name, *args])
                result = self.run(stage, command, 0 if as_root else who.uid, 0 if as_root else who.gid, case.during)
                why = self.doubt(case, stage, result, before)
                if why is None:
                    return kind, ""
            except (OSError, subprocess.SubprocessError) as error:
                why = f"set-up: {error}"
            finally:
                self.clear(stage)
        return None, why

    def doubt(self, case, stage, result, before):
        """Why a control run does not show that the attack works."""
        if result.code != 0:
            return result.line or f"exit {result.code}: {last_line(result.err)}"
        if case.leaks and stage.secret not in result.out:
            return "the secret is not in the output: " + result.line
        if case.outside and not case.outside(stage):
            return "nothing of it was seen from outside"
        if case.watch and not list(differences(before, snapshot(case.watch(stage)))):
            return "nothing changed on the host"
        return None

    # Inside -------------------------------------------------------------------------------------------------

    def attack(self, name, case, who):
        """Returns what got through (nothing is a pass) and the probe's own words."""
        stage = Stage(self, who, inside=True)
        problems = []
        try:
            args = case.setup(stage)
            settings = kernel_settings()
            listing = snapshot(stage.cwd)
            watched = snapshot(case.watch(stage)) if case.watch else None
            binary = digest(self.sandbox_for(who))
            command = self.sandbox_command(stage, case.flags(stage), [stage.probe, name, *args])
            result = self.run(stage, command, who.uid, who.gid, case.during)
            problems += self.misfires(case, result)
            if result.code == 0 and case.exit_counts:
                problems.append("the probe " + result.line)
            if stage.secret in result.out:
                problems.append("the secret came out")
            if case.outside and (seen := case.outside(stage)):
                problems.append(seen)
            if case.watch:
                problems += [f"{path} {how}" for path, how in differences(watched, snapshot(case.watch(stage)))]
            for path, how in differences(listing, snapshot(stage.cwd)):
                if not re.fullmatch(case.may_change, os.path.relpath(path, stage.cwd)):
                    problems.append(f"{os.path.relpath(path, stage.cwd)} {how}")
            problems += [f"{point} was left mounted" for point in mounted_below(stage.root)]
            if kernel_settings() != settings:
                problems.append("a kernel setting of the host changed")
            if digest(self.sandbox_for(who)) != binary:
                problems.append("the sandbox's own binary changed")
        except OSError as error:
            problems.append(f"set-up: {error}")
            result = Result(0)
        finally:
            stage.close()
            if left := self.left_behind(stage, patience=2.0):
                problems.append(f"left behind: {', '.join(map(describe, left))}")
                kill_all(left)
            self.clear(stage)
        return problems, result.line or f"exit {result.code}"

    def misfires(self, case, result):
        """A sandbox that did not run the probe has refused nothing."""
        if result.code is None:
            yield f"did not end within {TIMEOUT:.0f} s"
        elif result.code == 125:
            yield f"the sandbox did not start: {last_line(result.err)}"
        elif result.code in (126, 127):
            yield f"the probe could not be run inside: {last_line(result.err)}"
        elif result.code == 2:
            yield f"the probe was misused: {result.line}"
        elif result.code < 0 and not case.ends_by_signal:
            yield f"the sandbox itself died of signal {-result.code}"

    def hello(self, who):
        """An honest program has to work inside, or refusals mean little."""
        stage = Stage(self, who, inside=True)
        try:
            readable = stage.file(stage.out / "readable")
            command = [stage.probe, "--hello", str(stage.cwd / "mine"), readable]
            flags = ["--ro", readable, "--deny", str(stage.cwd / "deny.txt")]
            result = self.run(stage, self.sandbox_command(stage, flags, command), who.uid, who.gid)
            stage.close()
            left = self.left_behind(stage, patience=2.0)
            kill_all(left)
            if result.code == 0 and not left:
                return None
            return f"exit {result.code}: {result.line} {last_line(result.err)}" + (f"; left behind: {left}" if left else "")
        finally:
            self.clear(stage)

    # Tidying ------------------------------------------------------------------------------------------------

    def left_behind(self, stage, patience=0.0):
        """Processes that still know of this stage, and orphans of whatever name, after a moment to go."""
        limit = time.monotonic() + patience
        while True:
            left = sorted(set(mentioning(stage.root) + orphans()))
            if not left or time.monotonic() > limit:
                return left
            time.sleep(0.02)

    def clear(self, stage):
        stage.close()
        remove(stage.root)

    def close(self):
        remove(self.base)

    # One test -------------------------------------------------------------------------------------------------

    def judge(self, name, who):
        case, group = CASES[name], self.groups[name]
        shown, why = self.show_it_works(name, case, who)
        absent = name in self.options.absent
        # On a busy machine the judge may look too early. Only the attack without the sandbox is tried again:
        # that can never hide one that gets through.
        for _ in range(0 if absent else 2):
            if shown:
                break
            time.sleep(0.5)
            shown, why = self.show_it_works(name, case, who)
        if shown and absent:
            return Verdict(name, group, who.name, FAILED, shown, "works here, although listed with --absent")
        if not shown and not absent:
            return Verdict(name, group, who.name, FAILED if MUST_ENFORCE else NOT_RUN, "-", f"cannot be shown to work: {why}")
        if not shown:
            return Verdict(name, group, who.name, NOT_RUN, "-", f"listed with --absent: {why}")
        problems, words = self.attack(name, case, who)
        if problems:
            return Verdict(name, group, who.name, FAILED, shown, "; ".join(problems))
        return Verdict(name, group, who.name, PASSED, shown, words)


def mounted_below(path):
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{path}/")]


def remove(path):
    """Never into something that a failed sandbox has mounted there."""
    for point in reversed(mounted_below(path)):
        subprocess.run(["umount", "--lazy", point], stderr=subprocess.DEVNULL)
    if mounted_below(path):
        return
    for directory, _, _ in os.walk(path):  # an overlay leaves a directory that not even its owner may open
        for entry in os.scandir(directory):
            if entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    os.chmod(entry.path, 0o700)
    shutil.rmtree(path, ignore_errors=True)


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path else None


def last_line(text):
    """The last few, in one."""
    return " ".join(" ".join(text.strip().splitlines()[-3:]).split())


def stand_in(template, stage, flags):
    """Another sandbox in place of lazaret, to see that the judge can say no. `--deny` and `--ro` become what
    bubblewrap has for them, which is nothing for a name that does not exist yet."""
    words = [word.format(cwd=stage.cwd) for word in shlex.split(template)]
    tail = [words.pop()] if words and words[-1] == "--" else []
    if os.path.basename(words[0]) == "bwrap":
        for flag, path in zip(flags[::2], flags[1::2]):
            if flag == "--ro":
                words += ["--ro-bind", path, path]
            elif flag == "--deny" and os.path.isdir(path):
                words += ["--tmpfs", path]
            elif flag == "--deny" and os.path.exists(path):
                words += ["--ro-bind", "/dev/null", path]
    return words + tail


# ---- the session -------------------------------------------------------------------------------------------


def options():
    parser = argparse.ArgumentParser(description="Runs the escape suite and judges it from outside.")
    parser.add_argument("--lazaret", help="the sandbox to judge")
    parser.add_argument("--probe", required=True, help="probe.c, compiled statically")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this probe (may be repeated)")
    parser.add_argument("--as", dest="who", choices=("root", "user", "both"), default="both")
    parser.add_argument("--user", default="54321", metavar="UID[:GID]", help="the ordinary user (default %(default)s)")
    parser.add_argument("--absent", action="append", default=[], metavar="NAME",
                        help="this kernel or machine is known not to have what the probe attacks; an error if it has")
    parser.add_argument("--json", metavar="FILE", help="write the verdicts there")
    parser.add_argument("--keep-going", action="store_true", help="go on after the first failure")
    parser.add_argument("--tmp", default="/tmp", help=argparse.SUPPRESS)
    parser.add_argument("--in-place", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--wrap", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if not chosen.lazaret and not chosen.wrap:
        parser.error("--lazaret is required")
    chosen.absent = [name for names in chosen.absent for name in names.split(",")]
    return chosen


def identities(chosen):
    """Those that run, and those that cannot."""
    if os.geteuid() != 0:
        run = [] if chosen.who == "root" else [Identity("user", os.geteuid(), os.getegid())]
        return run, [] if chosen.who == "user" else ["root"]
    uid, _, gid = chosen.user.partition(":")
    known = {"root": Identity("root", 0, 0), "user": Identity("user", int(uid), int(gid or uid))}
    return [known[name] for name in known if chosen.who in (name, "both")], []


def check_tables(groups):
    missing, unknown = sorted(groups.keys() - CASES.keys()), sorted(CASES.keys() - groups.keys())
    if missing or unknown:
        sys.exit(f"probe and judge disagree; without a case: {missing}; without a probe: {unknown}")


def judge_all(suite, names, chosen):
    run, impossible = identities(chosen)
    verdicts = [Verdict(name, suite.groups[name], who, FAILED if MUST_ENFORCE else NOT_RUN, "-", "not run: needs root")
                for who in impossible for name in names]
    for who in run:
        trouble = suite.hello(who)
        verdicts.append(Verdict("hello", "honest program", who.name, FAILED if trouble else PASSED, "-", trouble or "works inside"))
        if trouble and not chosen.keep_going:
            return verdicts
        for name in names:
            verdict = suite.judge(name, who)
            verdicts.append(verdict)
            report(verdict)
            if verdict.outcome == FAILED and not chosen.keep_going:
                return verdicts
    return verdicts


def report(verdict):
    if verdict.outcome != PASSED:
        print(f"{verdict.outcome}: {verdict.name} as {verdict.who}: {verdict.note}", flush=True)


def summary(verdicts):
    groups = collections.OrderedDict()
    for verdict in verdicts:
        groups.setdefault((verdict.group, verdict.who), collections.Counter())[verdict.outcome] += 1
    print(f"\n{'class':20} {'as':6} {PASSED:>8} {FAILED:>8} {NOT_RUN:>8}")
    for (group, who), count in groups.items():
        print(f"{group:20} {who:6} {count[PASSED]:8} {count[FAILED]:8} {count[NOT_RUN]:8}")
    for title, outcome in (("failed", FAILED), ("not run", NOT_RUN)):
        chosen = [verdict for verdict in verdicts if verdict.outcome == outcome]
        if chosen:
            print(f"\n{title}:")
        for verdict in chosen:
            print(f"  {verdict.name} ({verdict.who}): {verdict.note}")


def step_aside():
    """What a sandbox that does not hold would do to the mounts and the name of the host, it does to a copy of
    them: as root the judge, and all that it starts, leaves the host's mount and UTS namespaces first."""
    if os.geteuid() == 0 and os.environ.get("LAZARET_JUDGE_ASIDE") != "1":
        os.environ["LAZARET_JUDGE_ASIDE"] = "1"
        command = ["unshare", "--mount", "--uts", "--propagation", "private", "--", sys.executable, *sys.argv]
        os.execvp(command[0], command)


def main():
    chosen = options()
    step_aside()
    adopt_orphans()
    before = mounts()
    suite = Suite(chosen)
    try:
        check_tables(suite.groups)
        unknown = (set(chosen.only or []) | set(chosen.absent)) - CASES.keys()
        if unknown:
            sys.exit(f"no such probe: {', '.join(sorted(unknown))}")
        verdicts = judge_all(suite, chosen.only or list(suite.groups), chosen)
    finally:
        suite.close()
    left = [describe(pid) for pid in sorted(set(mentioning(suite.base) + orphans()))]
    left += [f"mount {line}" for line in mounts() if line not in before]
    left += [f"directory {suite.base}"] if suite.base.exists() else []
    verdicts.append(Verdict("nothing-left", "after the run", "-", FAILED if left else PASSED, "-", "; ".join(left)))
    summary(verdicts)
    if chosen.json:
        Path(chosen.json).write_text(json.dumps([vars(verdict) for verdict in verdicts], indent=1) + "\n")
    count = collections.Counter(verdict.outcome for verdict in verdicts)
    print(f"\n{count[PASSED]} passed, {count[FAILED]} failed")
    return 1 if count[FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
