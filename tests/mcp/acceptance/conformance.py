"""The protocol's own conformance tests for servers: the same score through the proxy as direct. What they expect of a
server is in fixtures/conformant.py; server-everything is a second one, which lacks much of it."""

import contextlib
import json
import os
import re
import select
import socket
import subprocess
import threading
import time
import urllib.parse

from .record import Unable, expect
from .stage import Stage
from .tools import marked


TRANSPORT = {"dns-rebinding-protection", "server-sse-polling", "server-sse-multiple-streams"}


class Forwarder(contextlib.AbstractContextManager):
    """Adds the token to every request: the conformance client has no way to send one. Else bytes as they are, so that an
    end that goes away is seen at the other."""

    def __init__(self, address, token):
        self.target, self.token = urllib.parse.urlsplit(address), token
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.socket.getsockname()[1]}{self.target.path}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                link, _ = self.socket.accept()
                threading.Thread(target=self.relay, args=(link,), daemon=True).start()

    def head(self, link):
        """The changed head of the request, and what came after it."""
        data = b""
        while b"\r\n\r\n" not in data:
            chunk = link.recv(65536)
            if not chunk:
                return None
            data += chunk
        head, _, rest = data.partition(b"\r\n\r\n")
        lines = []
        for line in head.decode("latin-1").split("\r\n"):
            key, _, value = line.partition(":")
            value = value.strip()
            if key.lower() == "connection":
                continue
            # Our own address becomes the proxy's; what it makes of a foreign one is part of what is looked at.
            if key.lower() == "host" and value.startswith(("127.0.0.1", "localhost")):
                line = f"Host: {self.target.netloc}"
            if key.lower() == "origin" and value.startswith(("http://127.0.0.1", "http://localhost")):
                line = f"Origin: http://{self.target.netloc}"
            lines.append(line)
        lines += [f"Authorization: Bearer {self.token}", "Connection: close"]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + rest

    def relay(self, link):
        with contextlib.suppress(OSError), link:
            request = self.head(link)
            if request is None:
                return
            with socket.create_connection((self.target.hostname, self.target.port)) as onward:
                onward.sendall(request)
                ends = {link: onward, onward: link}
                while True:
                    for ready in select.select(list(ends), [], [])[0]:
                        data = ready.recv(65536)
                        if not data:
                            return
                        ends[ready].sendall(data)

    def __exit__(self, *_):
        self.socket.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def listening(suite, stage, command, port, env):
    """A server on HTTP, until it is not needed any more."""
    with open(stage.log(), "w") as log:
        process = subprocess.Popen([*suite.as_user(), *command], env=stage.environment(**env), cwd=stage.session, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None:
                raise Unable(f"the server ended with {process.returncode}")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def scores(suite, stage, address, way):
    """Every scenario's checks: {scenario: {check: status}}."""
    out = stage.directory(f"{stage.root}/results-{way}", 0o777)
    env = stage.environment()
    env["PATH"] = os.path.dirname(suite.shelf.node) + os.pathsep + env["PATH"]
    subprocess.run([*suite.as_user(), *suite.shelf.npm("conformance"), "server", "--url", address, "--suite", "all", "-o", out], env=env, cwd=stage.root,
                   capture_output=True, text=True, timeout=400, stdin=subprocess.DEVNULL)
    found = {}
    for directory, _, files in os.walk(out):
        if "checks.json" in files:
            # server-NAME-TIME
            name = re.sub(r"-\d{4}-\d\d-\d\dT.*$", "", os.path.basename(directory)).removeprefix("server-")
            checks = json.loads(stage.read(f"{directory}/checks.json"))
            found[name] = {check["id"]: (check["status"], check.get("errorMessage") or "") for check in checks if check["status"] != "INFO"}
    expect(len(found) > 20, f"only {len(found)} scenarios ran")
    return found


def total(found):
    good = sum(status == "SUCCESS" for checks in found.values() for status, _ in checks.values())
    return f"{good} of {sum(map(len, found.values()))}"


def run(suite, table):
    table.section("h", "the conformance tests score the same direct and through the proxy")
    fixture = suite.shelf.fixture("conformant.py")
    for name, server, over_http in [
        ("conformant", fixture, lambda port: ([*fixture.command, str(port)], {})),
        ("everything", suite.shelf.everything(), lambda port: (suite.shelf.everything(transport="streamableHttp").command, {"PORT": str(port)})),
    ]:
        direct = proxied = None
        with Stage(suite) as stage:
            with table.check(f"{name}: direct"):
                port = free_port()
                command, env = over_http(port)
                with listening(suite, stage, command, port, env):
                    direct = scores(suite, stage, f"http://127.0.0.1:{port}/mcp", "direct")
            if direct:
                print(f"      {name} direct: {total(direct)} checks", flush=True)
            if suite.direct_only or not direct:
                continue
            with table.check(f"{name}: through the proxy"):
                peer, address, token = stage.serve_http(servers=[marked(stage, server)])
                with Forwarder(address, token) as forwarder:
                    proxied = scores(suite, stage, forwarder.address, "proxied")
                peer.close()
            if not proxied:
                continue
            print(f"      {name} through the proxy: {total(proxied)} checks", flush=True)
            for scenario in sorted(set(direct) | set(proxied)):
                with table.check(f"{name}: {scenario}"):
                    one, other = direct.get(scenario, {}), proxied.get(scenario, {})
                    if scenario in TRANSPORT:
                        # These are about the HTTP front, which is ours: it may be better than the server's own, and answer without a
                        # stream, which is no check then.
                        one = {key: value for key, value in one.items() if value[0] == "SUCCESS" and key in other}
                        other = {key: other[key] for key in one} | {key: value for key, value in other.items() if value[0] == "FAILURE"}
                    differs = [f"{key}: {one.get(key, ('absent', ''))[0]} direct, {other.get(key, ('absent', ''))[0]} through the proxy "
                               f"({other.get(key, ('', ''))[1][:200]})"
                               for key in sorted(set(one) | set(other)) if one.get(key, ("",))[0] != other.get(key, ("",))[0]]
                    expect(not differs, "; ".join(differs))
