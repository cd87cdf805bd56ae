"""Where a check happens: a home with a secret, a session directory, a policy, servers; and the two ways to a server,
direct and through the proxy."""

import contextlib
import dataclasses
import json
import os
import re
import secrets
import shutil
import subprocess
import time

from .wire import Peer, Silent

FIXTURES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fixtures")
ALLOW_ALL = "permit(principal, action, resource);\n"
NPM = "servers/node_modules/@modelcontextprotocol"


@dataclasses.dataclass
class Server:
    name: str
    command: list
    env: dict = dataclasses.field(default_factory=dict)
    more: dict = dataclasses.field(default_factory=dict)  # what else the configuration says: sandbox, …

    def config(self):
        return {"command": self.command[0], "args": self.command[1:]} | ({"env": self.env} if self.env else {}) | self.more

    def with_(self, **more):
        return dataclasses.replace(self, more=self.more | more)


class Shelf:
    """The installed servers, by name."""

    def __init__(self, cache):
        self.cache = cache
        self.node = f"{cache}/node/node_modules/.bin/node"
        # The program itself, not npm's link to it.
        if os.path.exists(self.node):
            self.node = os.path.realpath(self.node)
        self.python = f"{cache}/venv/bin/python"

    def npm(self, package, *args):
        return [self.node, f"{self.cache}/{NPM}/{package}/dist/index.js", *args]

    def everything(self, name="everything", transport="stdio"):
        return Server(name, self.npm("server-everything", transport))

    def filesystem(self, *directories, name="filesystem"):
        return Server(name, self.npm("server-filesystem", *directories))

    def memory(self, file, name="memory"):
        return Server(name, self.npm("server-memory"), {"MEMORY_FILE_PATH": file})

    def thinking(self, name="thinking"):
        return Server(name, self.npm("server-sequential-thinking"), {"DISABLE_THOUGHT_LOGGING": "true"})

    def git(self, repository, name="git"):
        return Server(name, [f"{self.cache}/venv/bin/mcp-server-git", "--repository", repository])

    def time(self, name="time"):
        return Server(name, [f"{self.cache}/venv/bin/mcp-server-time", "--local-timezone", "Etc/UTC"])

    def fetch(self, name="fetch"):
        # The page that it is asked for is on this very host.
        return Server(name, [f"{self.cache}/venv/bin/mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips"])

    def fixture(self, file, *args, name=None):
        return Server(name or file.removesuffix(".py"), [self.python, "-B", f"{FIXTURES}/{file}", *args])

    def bad(self, way, name=None):
        return self.fixture("bad.py", way, name=name or way)


class Stage:
    def __init__(self, suite, servers=(), policy=ALLOW_ALL):
        self.suite, self.servers = suite, list(servers)
        self.mark = "acceptance-" + secrets.token_hex(6)
        self.root = f"{suite.base}/{self.mark}"
        self.home, self.session, self.policy = f"{self.root}/home", f"{self.root}/session", f"{self.root}/policy"
        self.secret, self.audit = "SECRET-" + secrets.token_hex(8), f"{self.root}/audit/calls.jsonl"
        self.directory(self.root)
        for path in [self.home, f"{self.home}/.ssh", self.policy, f"{self.root}/state", f"{self.root}/config", f"{self.root}/audit"]:
            self.directory(path, 0o700)
        self.file(f"{self.home}/.ssh/id_test", self.secret + "\n", 0o600)
        self.file(f"{self.home}/notes", "notes of the owner\n")
        self.file(f"{self.policy}/policy.cedar", policy)
        self.fresh_session()
        self.peers, self.count = [], 0

    # Files -----------------------------------------------------------------------------------------

    def own(self, path):
        if os.geteuid() == 0 and self.suite.user is not None:
            os.chown(path, self.suite.user, self.suite.user, follow_symlinks=False)

    def directory(self, path, mode=0o755):
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
        self.own(path)
        return path

    def file(self, path, text, mode=0o644):
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        self.own(path)
        return path

    def fresh_session(self):
        """The same path again with nothing in it: what a server says about paths is then the same both ways."""
        shutil.rmtree(self.session, ignore_errors=True)
        self.directory(self.session, 0o700)

    def read(self, path):
        try:
            with open(path, errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    # The two ways ----------------------------------------------------------------------------------

    def environment(self, **more):
        """What a client gives: HOME is the stage's, and one variable marks all that comes from here."""
        return {"PATH": os.environ["PATH"], "HOME": self.home, "USER": "acceptance", "LANG": "C.UTF-8", "LAZARET_STAGE": self.mark,
                "XDG_STATE_HOME": f"{self.root}/state", "XDG_CONFIG_HOME": f"{self.root}/config", **more}

    def log(self):
        self.count += 1
        return self.file(f"{self.root}/log-{self.count}", "")

    def direct(self, server, person=None):
        peer = Peer(server.command, self.session, self.environment() | server.env, self.log(), self.suite.user, person)
        # Some servers do not end when the client goes.
        peer.farewell = 1.0
        return self.keep(peer)

    def configure(self, servers=None, **top):
        """Writes the configuration; gives its path. `top`: what stands beside the servers."""
        path = f"{self.root}/mcp-servers.json"
        config = {"mcpServers": {server.name: server.config() for server in (self.servers if servers is None else servers)}, **top}
        self.file(path, json.dumps(config, indent=2))
        return path

    def command(self, *more, servers=None, **top):
        return [self.suite.lazaret, "mcp", "serve", "--config", self.configure(servers, **top), "--session", self.session,
                "--policy", self.policy, "--audit", self.audit, *more]

    def proxy(self, *more, servers=None, under=(), env=None, person=None, **top):
        command = [*under, *self.command(*more, servers=servers, **top)]
        return self.keep(Peer(command, self.root, self.environment(**(env or {})), self.log(), self.suite.user, person))

    def serve_http(self, *more, servers=None, **top):
        """The proxy on a port of loopback: (peer, address, token)."""
        token = secrets.token_hex(16)
        self.file(f"{self.root}/token", token + "\n", 0o600)
        peer = self.proxy("--http", "127.0.0.1:0", "--token-file", f"{self.root}/token", *more, servers=servers, **top)
        end = time.monotonic() + 20
        while time.monotonic() < end and peer.process.poll() is None:
            if found := re.search(r"listening on (http://\S+)", self.read(peer.log)):
                return peer, found.group(1), token
            time.sleep(0.05)
        raise Silent(f"the proxy did not say where it listens: {peer.errors()}")

    def lazaret(self, *args, env=None, patience=60, under=()):
        identity = {} if self.suite.user is None or os.geteuid() != 0 else {"user": self.suite.user, "group": self.suite.user, "extra_groups": []}
        return subprocess.run([*under, self.suite.lazaret, *args], env=self.environment(**(env or {})), cwd=self.root, capture_output=True, text=True,
                              timeout=patience, stdin=subprocess.DEVNULL, **identity)

    def keep(self, peer):
        self.peers.append(peer)
        return peer

    # What is left ----------------------------------------------------------------------------------

    def events(self):
        """The audit log, one object per line."""
        found = []
        for line in self.read(self.audit).splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return found

    def session_log(self):
        """Everything that was logged: on stderr and in the session's own log."""
        text = ""
        for directory, _, files in os.walk(f"{self.root}/state"):
            for name in files:
                if name.endswith(".log"):
                    text += self.read(os.path.join(directory, name))
        return text + "".join(self.read(f"{self.root}/log-{number}") for number in range(1, self.count + 1))

    def processes(self):
        """All that carries the stage's mark in its environment or command line, but for us."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            if int(pid) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/environ", "rb") as file:
                    environ = file.read()
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    cmdline = file.read()
                if self.mark.encode() in environ or self.mark.encode() in cmdline:
                    found[int(pid)] = cmdline.replace(b"\0", b" ").decode(errors="replace").strip()
        return found

    def family(self, pid):
        """A process and all that descend from it."""
        parents = {}
        for other in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{other}/stat") as file:
                    parents.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(other))
        found, waiting = [], [pid]
        while waiting:
            one = waiting.pop()
            found.append(one)
            waiting += parents.get(one, [])
        return found

    def nothing_left(self, patience=5.0, others=()):
        """Waits until nothing of the stage runs; what does, if something does."""
        end = time.monotonic() + patience
        while True:
            left = self.processes()
            left |= {pid: "a descendant of the proxy" for pid in others if os.path.exists(f"/proc/{pid}") and not self.zombie(pid)}
            if not left or time.monotonic() > end:
                return left
            time.sleep(0.1)

    def zombie(self, pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    def close(self):
        for peer in self.peers:
            peer.close()
        for pid in self.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, 9)
        if not self.suite.keep:
            shutil.rmtree(self.root, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
