"""Starts, times and ends what is measured: a small process of its own that does nothing else, under the identity
that is measured. It adopts whatever its children leave behind, so that nothing outlives the benchmark."""

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import tempfile
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# Python, nohup and shells ignore some of these; what is measured gets them as a program expects.
USUAL = [signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ]


class Failed(Exception):
    """What was started did not do what it should; the message is one line."""


class TimedOut(Exception):
    pass


def last_line(text):
    """The line of an error output that tells most: the last one that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


def prctl(option, value):
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


# Reading /proc.


def children(pid):
    found = []
    with contextlib.suppress(OSError):
        # A process may be the child of any thread.
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
                found += [int(child) for child in file.read().split()]
    return found


def tree(pid):
    """A process and all its descendants, parents first."""
    found = [pid]
    for parent in found:
        found += children(parent)
    return found


def name_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as file:
        return file.read().strip()
    return ""


def alive(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] not in "ZX"
    return False


def proportional_bytes(pid):
    """PSS of a process, None when it may not be read, 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except PermissionError:
        return None
    except OSError:
        pass
    return 0


# Ending.


def reap():
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def end(pids, patience=3.0):
    """Ends these processes and all below them, leaves first: so every sandbox sees its command end, and clears
    up after itself (control groups, mounts, placeholders). Who does not is killed in the end."""
    deadline = time.monotonic() + patience
    # A sandbox that waits for its command ends by itself; who has nobody to wait for does not.
    waiting = {pid for pid in pids if children(pid)}
    while True:
        reap()
        living = [process for pid in pids for process in tree(pid) if alive(process)]
        if not living:
            return True
        late = time.monotonic() > deadline
        for process in living:
            leaf = process not in waiting and not any(alive(child) for child in children(process))
            if late or leaf:
                # Not TERM: the first process of a pid namespace ignores it, and nothing here has anything to save.
                with contextlib.suppress(OSError):
                    os.kill(process, signal.SIGKILL)
        if time.monotonic() > deadline + 5:
            return False
        time.sleep(0.02)


def end_everything():
    """Ends all descendants of this process."""
    return end([pid for pid in children(os.getpid())], patience=2.0)


# The process that starts, and its client.


class Launcher:
    """The benchmark's end: asks the launching process, which runs as `user` in `directory`."""

    def __init__(self, user, directory, environment):
        here, there = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            here.close()
            code = 1
            try:
                code = serve(there, user, directory, environment)
            finally:
                os._exit(code)
        there.close()
        self.file = here.makefile("rw")

    def ask(self, **request):
        self.file.write(json.dumps(request) + "\n")
        self.file.flush()
        answer = self.file.readline()
        if not answer:
            raise Failed("the launching process has ended")
        answer = json.loads(answer)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def seconds(self, argv, timeout=120):
        """Wall time of one command that must succeed."""
        return self.ask(do="run", argv=argv, timeout=timeout)["seconds"]

    def output(self, argv, timeout=300):
        """Standard output of a command that must succeed."""
        return self.ask(do="run", argv=argv, timeout=timeout, capture=True)["stdout"]

    def rate(self, argv, seconds):
        """Launches per second, one after the other."""
        return self.ask(do="rate", argv=argv, seconds=seconds)["rate"]

    def batch(self, commands, at_once, timeout=180):
        """Wall time for all these commands, each with its working directory, so many at once."""
        return self.ask(do="batch", commands=commands, at_once=at_once, timeout=timeout)["seconds"]

    @contextlib.contextmanager
    def running(self):
        """A function that starts a command in a directory and gives its process id; all are ended afterwards."""
        pids = []

        def start(argv, directory):
            pids.append(self.ask(do="start", argv=argv, directory=directory)["pid"])
            return pids[-1]

        try:
            yield start
        finally:
            self.ask(do="end", pids=pids)

    def complaint(self):
        """What the commands that were started last wrote to standard error."""
        return self.ask(do="complaint")["stderr"]

    def close(self):
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGTERM)
        deadline = time.monotonic() + 10
        while alive(self.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        with contextlib.suppress(OSError):
            self.file.close()


def serve(channel, user, directory, environment):
    """The launching process: one request per line until the benchmark is gone."""
    os.setsid()
    if user.uid != os.geteuid():
        os.setgroups([])
        os.setgid(user.gid)
        os.setuid(user.uid)
    os.chdir(directory)

    def leave(*_):
        raise SystemExit

    def late(*_):
        raise TimedOut

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGALRM, late)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # After the identity has changed: that clears it.
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    starter = Starter(environment, directory)
    try:
        file = channel.makefile("rw")
        for line in file:
            request = json.loads(line)
            try:
                answer = getattr(starter, request.pop("do"))(**request)
            except Failed as error:
                answer = {"error": str(error)}
            except TimedOut:
                answer = {"error": "not finished in time"}
            except OSError as error:
                answer = {"error": f"{error.strerror}: {error.filename or ''}".rstrip(": ")}
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            starter.clear()
            file.write(json.dumps(answer) + "\n")
            file.flush()
    except (SystemExit, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_everything()
    return 0


class Starter:
    def __init__(self, environment, directory):
        self.environment, self.directory = environment, directory
        self.kept = set()
        self.null = os.open("/dev/null", os.O_RDWR)
        self.files = [tempfile.TemporaryFile(dir=".") for _ in range(2)]
        self.out, self.err = (file.fileno() for file in self.files)

    def spawn(self, argv, out):
        actions = [(os.POSIX_SPAWN_DUP2, self.null, 0), (os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, self.err, 2)]
        # vfork inside: what it costs hangs neither on our size nor on our threads.
        return os.posix_spawn(argv[0], argv, self.environment, file_actions=actions, setpgroup=0, setsigdef=USUAL)

    def fresh(self):
        for file in [self.out, self.err]:
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)

    def text(self, file):
        return os.pread(file, 1 << 20, 0).decode(errors="replace")

    def complaint(self):
        return {"stderr": self.text(self.err)}

    def judge(self, status):
        code = os.waitstatus_to_exitcode(status)
        if code != 0:
            said = last_line(self.text(self.err) or self.text(self.out))
            raise Failed(f"exit code {code}: {said}" if code > 0 else f"signal {-code}: {said}")

    def run(self, argv, timeout, capture=False):
        self.fresh()
        signal.setitimer(signal.ITIMER_REAL, timeout)
        begin = time.perf_counter()
        pid = self.spawn(argv, self.out if capture else self.null)
        _, status = os.waitpid(pid, 0)
        seconds = time.perf_counter() - begin
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.judge(status)
        return {"seconds": seconds, "stdout": self.text(self.out)}

    def rate(self, argv, seconds):
        self.fresh()
        count, begin = 0, time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, seconds + 60)
        while (elapsed := time.perf_counter() - begin) < seconds:
            _, status = os.waitpid(self.spawn(argv, self.null), 0)
            self.judge(status)
            count += 1
        return {"rate": count / elapsed}

    def batch(self, commands, at_once, timeout):
        self.fresh()
        waiting, running = list(reversed(commands)), set()
        signal.setitimer(signal.ITIMER_REAL, timeout)
        begin = time.perf_counter()
        while waiting or running:
            while waiting and len(running) < at_once:
                argv, directory = waiting.pop()
                os.chdir(directory)
                running.add(self.spawn(argv, self.null))
            pid, status = os.waitpid(-1, 0)
            # Others are orphans that were adopted.
            if pid in running:
                running.remove(pid)
                self.judge(status)
        return {"seconds": time.perf_counter() - begin}

    def start(self, argv, directory):
        if not self.kept:
            self.fresh()
        os.chdir(directory)
        pid = self.spawn(argv, self.null)
        self.kept.add(pid)
        return {"pid": pid}

    def end(self, pids):
        gone = end(pids)
        self.kept -= set(pids)
        return {"gone": gone}

    def clear(self):
        """Nothing that one sandbox leaves behind disturbs the next."""
        os.chdir(self.directory)
        reap()
        left = [pid for pid in children(os.getpid()) if pid not in self.kept]
        if left:
            end(left, patience=0)


def note(text):
    print(text, file=sys.stderr, flush=True)
