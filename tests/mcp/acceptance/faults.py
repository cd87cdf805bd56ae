"""Servers, clients and configurations that misbehave. Whatever one server does, the proxy answers in time, in proper
JSON-RPC, the other servers go on, and nothing is left afterwards."""

import contextlib
import json
import os
import signal
import subprocess
import time

from .degraded import refuses
from .record import expect
from .stage import Server, Stage
from .tools import marked
from .wire import Duplicate, Refused, Silent, exact, text_of

MOUNTS = "/proc/self/mounts"
ANSWERS = 15.0  # within which a call must be answered, whatever the server does


class Scene:
    """A proxy with one bad server and one good."""

    def __init__(self, suite, bad, *more_servers, **top):
        self.stage = Stage(suite)
        self.good = suite.shelf.fixture("worker.py", "good", name="good")
        self.bad = suite.shelf.bad(bad) if isinstance(bad, str) else bad
        servers = [marked(self.stage, server) for server in (self.bad, self.good, *more_servers)]
        self.peer = self.stage.proxy(servers=servers, **top)
        self.name = self.bad.name

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.finish()
        finally:
            self.stage.close()

    def open(self):
        self.peer.initialize(patience=30)
        return self.peer

    def act(self, tool="act", patience=ANSWERS, **more):
        """The bad server's tool by its long name: (result or None, error or None)."""
        return self.call(f"{self.name}__{tool}", patience, **more)

    def call(self, name, patience=ANSWERS, arguments=None):
        number = self.peer.begin("tools/call", {"name": name, "arguments": arguments or {}})
        message, line = self.peer.reply(number, patience)
        proper(message, line)
        return message.get("result"), message.get("error")

    def goes_on(self):
        """The good server answers, soon."""
        expect(self.peer.process.poll() is None, f"the proxy ended with {self.peer.process.poll()}: {self.peer.errors()}")
        self.good_count = getattr(self, "good_count", 0) + 1
        result, error = self.call("good_run", 10, {"cmd": f"echo good {self.good_count}"})
        expect(error is None and f"good {self.good_count}" in text_of(result), f"the other server does not answer: {error or result}")

    def finish(self):
        """The client goes; the proxy ends properly and leaves nothing."""
        expect(not self.peer.strays, f"not JSON-RPC: {self.peer.strays[:3]}")
        descendants = self.stage.family(self.peer.process.pid)
        code = self.peer.close()
        expect(code is not None, "the proxy did not end when the client went")
        expect(code == 0, f"the proxy ended with {code}: {self.peer.errors()}")
        left_nothing(self.stage, descendants)


def proper(message, line):
    """An answer as JSON-RPC has it."""
    if len(line) < 1 << 20:
        exact(line)
    expect(message.get("jsonrpc") == "2.0" and ("result" in message) != ("error" in message), f"not a proper answer: {line[:300]!r}")
    if "error" in message:
        error = message["error"]
        expect(isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str), f"not a proper error: {error}")


def failed(result, error):
    return error is not None or bool(result.get("isError"))


def left_nothing(stage, descendants=()):
    no_processes(stage, descendants)
    # What a killed one could not clear is cleared by the next.
    groups = [os.path.join(at, name) for at, names, _ in os.walk("/sys/fs/cgroup") for name in names if name.startswith("lazaret") and owned(name, descendants)]
    expect(not groups, f"control groups are left: {groups[:3]}")


def no_processes(stage, descendants=()):
    left = stage.nothing_left(others=descendants)
    expect(not left, f"still running: {left}")
    with open(MOUNTS) as file:
        expect(stage.mark not in file.read(), "a mount is left")


def owned(name, descendants):
    """A group whose name has the number of one of these processes."""
    return any(str(pid) in name for pid in descendants)


def peak(pid):
    """The most memory that a process has had, in MB."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                if line.startswith("VmHWM"):
                    return int(line.split()[1]) // 1024
    return 0


# ---- at the start -----------------------------------------------------------------------------------------


def crash_at_start(suite):
    with Scene(suite, "crash-at-start") as scene:
        peer = scene.open()
        scene.goes_on()
        expect(not [name for name in peer.tools() if name.endswith("act")], "its tools are listed")
        expect(failed(*scene.act()), "a call of it succeeded")
        log = scene.stage.session_log()
        expect("the database is missing" in log, "what it said on stderr is not in the session log")
        expect("sk-abcdefghijklmnopqrstuvwxyz0123456789AB" not in log, "a secret that it said is in the session log")


def missing_command(suite):
    with Scene(suite, Server("missing", ["/no/such/command", "x"])) as scene:
        scene.open()
        scene.goes_on()
        expect(failed(*scene.act()), "a call of it succeeded")
        expect("missing" in scene.stage.session_log(), "it is not in the session log")


def garbage_at_start(suite):
    with Scene(suite, "garbage-at-start") as scene:
        scene.open()
        scene.goes_on()
        scene.act("fine")


def silent_at_start(suite):
    """It never answers `initialize`: the client must not wait for it for ever."""
    with Scene(suite, "silent-at-start") as scene:
        scene.open()
        scene.goes_on()
        scene.act(patience=70)
        scene.goes_on()


def slow_start(suite):
    with Scene(suite, "slow-start") as scene:
        peer = scene.open()
        scene.goes_on()
        end = time.monotonic() + 15
        while time.monotonic() < end and not any(name.endswith("fine") for name in peer.tools()):
            time.sleep(0.2)
        result, error = scene.act("fine")
        expect(not failed(result, error) and text_of(result) == "fine slow-start", error or result)


# ---- in a call --------------------------------------------------------------------------------------------


def crash_in_a_call(suite, way):
    with Scene(suite, way) as scene:
        scene.open()
        began = time.monotonic()
        expect(failed(*scene.act()), "the call succeeded")
        expect(time.monotonic() - began < 5, "the answer took long")
        scene.goes_on()
        scene.act("fine")
        scene.goes_on()


def crash_with_calls_waiting(suite):
    with Scene(suite, "crash") as scene:
        peer = scene.open()
        numbers = [peer.begin("tools/call", {"name": "crash__act", "arguments": {}}) for _ in range(5)]
        for number in numbers:
            proper(*peer.reply(number, ANSWERS))
        scene.goes_on()


def hang(suite):
    with Scene(suite, "hang") as scene:
        peer = scene.open()
        number = peer.begin("tools/call", {"name": "hang__act", "arguments": {}})
        time.sleep(0.3)
        for _ in range(5):
            scene.goes_on()
        peer.notify("notifications/cancelled", {"requestId": number})
        scene.goes_on()


def hang_and_leave(suite):
    """The client goes in the middle of a call."""
    with Scene(suite, "hang") as scene:
        scene.open().begin("tools/call", {"name": "hang__act", "arguments": {}})
        time.sleep(0.3)


def flood(suite):
    with Scene(suite, "flood") as scene:
        scene.open()
        result, error = scene.act(patience=60)
        expect(error or text_of(result) == "flooded" or result.get("isError"), result)
        scene.goes_on()
        expect(peak(scene.peer.process.pid) < 200, f"{peak(scene.peer.process.pid)} MB of memory")


def flood_unread(suite):
    """A client that does not read: the proxy keeps what it must, not everything; others are not asked here."""
    with Stage(suite) as stage:
        server = marked(stage, suite.shelf.bad("flood"))
        process = subprocess.Popen([*suite.as_user(), *stage.command(servers=[server])], cwd=stage.root, env=stage.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            for message in [{"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}}},
                            {"method": "notifications/initialized"}, {"id": 2, "method": "tools/call", "params": {"name": "flood__act", "arguments": {}}}]:
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
                process.stdin.flush()
                if message.get("id") == 1:
                    process.stdout.readline()
            time.sleep(4)
            expect(process.poll() is None, f"it ended with {process.poll()}")
            expect(peak(process.pid) < 200, f"{peak(process.pid)} MB of memory")
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            process.stdin.close()
        no_processes(stage)


def says(way, *wanted):
    """The call is answered, with the text or with a proper failure."""
    def check(suite):
        with Scene(suite, way) as scene:
            peer = scene.open()
            number = peer.begin("tools/call", {"name": f"{way}__act", "arguments": {}})
            message, line = peer.reply(number, ANSWERS)
            proper(message, line)
            result, error = message.get("result"), message.get("error")
            # A result that is no object may pass: it is the server's, and the client's to refuse.
            expect(not isinstance(result, dict) or failed(result, error) or text_of(result) in wanted, result)
            scene.goes_on()
            time.sleep(0.2)
            expect(len(peer.replies[number]) == 1, f"{len(peer.replies[number])} answers to one request")
            scene.act("fine")
    return check


def must_say(way, wanted):
    """The answer is there, so it must arrive."""
    def check(suite):
        with Scene(suite, way) as scene:
            scene.open()
            result, error = scene.act()
            expect(not failed(result or {}, error) and text_of(result) == wanted, error or result)
            scene.goes_on()
            result, error = scene.act("fine")
            expect(not failed(result or {}, error), error or result)
    return check


def duplicate_keys(suite):
    """Two readers could understand it differently: the client must not see it."""
    with Scene(suite, "duplicate-keys") as scene:
        scene.open()
        try:
            expect(failed(*scene.act()), "an answer with duplicate keys was passed on as good")
        except Duplicate as error:
            raise AssertionError(f"duplicate keys arrived: {error}") from error
        scene.goes_on()


def huge_line(suite):
    with Scene(suite, "huge-line") as scene:
        scene.open()
        result, error = scene.act(patience=90)
        expect(error or result.get("isError") or len(text_of(result)) == 100 * 1024 * 1024, "neither whole nor refused")
        used = peak(scene.peer.process.pid)
        scene.goes_on()
        # Once as it comes, and what is needed to pass it on; not twice.
        expect(used < 190, f"{used} MB of memory for a line of 100 MB")


def endless_line(suite):
    with Scene(suite, "endless-line") as scene:
        scene.open()
        expect(failed(*scene.act(patience=120)), "it succeeded")
        scene.goes_on()
        expect(peak(scene.peer.process.pid) < 600, f"{peak(scene.peer.process.pid)} MB of memory")


def only_wrong_id(suite):
    with Scene(suite, "only-wrong-id") as scene:
        peer = scene.open()
        number = peer.begin("tools/call", {"name": "only-wrong-id__act", "arguments": {}})
        time.sleep(1)
        scene.goes_on()
        expect("not yours" not in str(peer.replies), f"it was passed on: {peer.replies.get(number)}")
        scene.act("fine")


def wrong_id(suite):
    with Scene(suite, "wrong-id") as scene:
        peer = scene.open()
        result, error = scene.act()
        expect(not failed(result or {}, error) and text_of(result) == "the right one", error or result)
        scene.goes_on()
        expect("not yours" not in str(peer.replies), f"it was passed on: {peer.replies}")


def orphan(suite):
    with Scene(suite, "orphan") as scene:
        scene.open()
        expect(not failed(*scene.act()), "not started")
        scene.goes_on()
        expect([one for one in scene.stage.processes().values() if "orphan" in one and "trap" in one], "no orphan to be seen: the check proves nothing")


def orphan_of_the_dead(suite):
    """The child of a server that is dead goes with it, not only with the proxy."""
    with Scene(suite, "orphan") as scene:
        scene.open()
        scene.act()
        for pid, command in scene.stage.processes().items():
            if command.endswith("bad.py orphan"):
                os.kill(pid, signal.SIGKILL)
        scene.goes_on()
        end = time.monotonic() + 5
        while time.monotonic() < end and [one for one in scene.stage.processes().values() if "trap" in one]:
            time.sleep(0.1)
        left = [one for one in scene.stage.processes().values() if "trap" in one]
        expect(not left, f"still running: {left}")


def change(suite):
    with Scene(suite, "change") as scene:
        peer = scene.open()
        before = set(peer.tools())
        scene.act()
        peer.note("notifications/tools/list_changed", patience=5)
        after = {}
        end = time.monotonic() + 5
        while time.monotonic() < end and "newcomer" not in after:
            after = peer.tools()
            time.sleep(0.1)
        expect("newcomer" in after and "newcomer" not in before, sorted(after))
        scene.goes_on()
        text = scene.stage.read(scene.stage.audit) + scene.stage.session_log()
        expect("newcomer" in text, "that the tools changed is in no log")


def closes_output(suite):
    with Scene(suite, "closes-output") as scene:
        scene.open()
        scene.act()
        scene.goes_on()
        expect(failed(*scene.act("fine")), "a call succeeded, without a way to answer")
        scene.goes_on()


# ---- names ------------------------------------------------------------------------------------------------


def collisions(suite):
    with Scene(suite, suite.shelf.bad("one", name="one"), suite.shelf.bad("two", name="two")) as scene:
        peer = scene.open()
        tools = peer.tools()
        expect({"one__act", "two__act", "one__fine", "two__fine"} <= set(tools), sorted(tools))
        expect("act" not in tools and "fine" not in tools, "a name that two servers have is listed bare")
        for name in ["one", "two"]:
            result, error = scene.call(f"{name}__fine")
            expect(not failed(result or {}, error) and text_of(result) == f"fine {name}", error or result)
        expect(failed(*scene.call("fine")), "a name that two servers have was called bare")
        expect("good_run" in tools, "a name that only one server has is not listed bare")
        scene.goes_on()


def alias_of_another(suite):
    """A tool that is named as another server's alias does not get that server's calls."""
    with Scene(suite, suite.shelf.bad("odd-names", name="a"), suite.shelf.bad("b", name="a__b")) as scene:
        peer = scene.open()
        tools = peer.tools()
        expect(len(tools) == len(set(tools)), "a name is listed twice")
        scene.goes_on()


def odd_names(suite):
    with Scene(suite, "odd-names") as scene:
        peer = scene.open()
        scene.act("fine")
        for name in list(peer.tools()) + ["", "odd-names__", "__", "odd-names__new\nline", "\u202e", "x" * 5000]:
            scene.call(name, 20)
        scene.goes_on()


def many_tools(suite):
    with Scene(suite, "many-tools") as scene:
        peer = scene.open()
        listed = [name for name in peer.tools() if name.startswith("tool_")]
        expect(len(listed) >= 1900, f"{len(listed)} tools")
        for name in [listed[0], listed[5], listed[len(listed) // 2], listed[-1]]:
            result, error = scene.call(name)
            expect(error is None and text_of(result) == "fine many-tools", f"{name} is listed, but: {error or text_of(result)}")
        scene.goes_on()


# ---- the end ----------------------------------------------------------------------------------------------


def signalled(number, busy):
    def check(suite):
        with Stage(suite) as stage:
            servers = [marked(stage, server) for server in (suite.shelf.bad("hang"), suite.shelf.bad("orphan"), suite.shelf.fixture("worker.py", "good", name="good"))]
            peer = stage.proxy(servers=servers)
            peer.initialize(patience=30)
            peer.call("orphan__act")
            if busy:
                peer.begin("tools/call", {"name": "hang__act", "arguments": {}})
                time.sleep(0.3)
            descendants = stage.family(peer.process.pid)
            expect(len(stage.processes()) >= 4, f"too little runs: {stage.processes()}")
            peer.process.send_signal(number)
            try:
                peer.process.wait(10)
            except subprocess.TimeoutExpired:
                raise Silent("it did not end within 10 s") from None
            if number != signal.SIGKILL:
                left_nothing(stage, descendants)
                return
            no_processes(stage, descendants)
            # What it left on disk must not be in the way of the next one.
            again = stage.proxy(servers=servers)
            again.initialize(patience=30)
            expect("good" in text_of(again.call("good_run", {"cmd": "echo good"})), "the next one does not work")
            expect(again.close() == 0, "the next one did not end well")
            left_nothing(stage, descendants)
    return check


def killed_at_start(suite):
    """At many moments while it starts."""
    for moment in [0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.4]:
        with Stage(suite) as stage:
            peer = stage.proxy(servers=[marked(stage, suite.shelf.bad("orphan")), marked(stage, suite.shelf.fixture("worker.py", "good", name="good"))])
            time.sleep(moment)
            descendants = stage.family(peer.process.pid)
            peer.process.kill()
            peer.process.wait()
            no_processes(stage, descendants)


# ---- clients ----------------------------------------------------------------------------------------------


def odd_client(suite):
    with Scene(suite, "nothing") as scene:
        peer = scene.open()
        for line in [b"not json", b"\xff\xfe", b"", b"   ", b"null", b"[]", b"123", b'"text"', b"{}", b'{"jsonrpc": "2.0"}', b'{"jsonrpc": "2.0", "id": 900}',
                     b'{"jsonrpc": "1.0", "id": 901, "method": "ping"}', b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}',
                     b'{"jsonrpc": "2.0", "id": 902, "method": 5}', b'{"jsonrpc": "2.0", "id": 903, "method": "tools/call"}',
                     b'{"jsonrpc": "2.0", "id": 904, "method": "tools/call", "params": []}', b'{"jsonrpc": "2.0", "id": 905, "method": "tools/call", "params": {"name": 7}}',
                     b'{"jsonrpc": "2.0", "id": 906, "method": "tools/call", "params": {"name": "good_run", "arguments": "text"}}',
                     b'{"jsonrpc": "2.0", "id": 907, "method": "ping", "method": "tools/list"}', b'{"jsonrpc": "2.0", "id": 55, "result": {}}',
                     b'{"jsonrpc": "2.0", "id": 56, "error": {"code": 1, "message": "m"}}', b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77777}}',
                     b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "none", "progress": 1}}', b"[" * 100000,
                     b'{"jsonrpc": "2.0", "id": 908, "method": "ping", "params": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}"]:
            peer.say_text(line)
        scene.goes_on()
        for number in (903, 904, 905, 906):
            message, line = peer.reply(number, 5)
            proper(message, line)
            expect(failed(message.get("result") or {}, message.get("error")), f"{number}: {message}")
        # Answers to what had no readable id have none; the reader keeps them apart.
        for line in peer.strays:
            expect(json.loads(line).get("error"), line)
        peer.strays.clear()


def same_id_twice(suite):
    with Scene(suite, "hang") as scene:
        peer = scene.open()
        for _ in range(2):
            peer.say({"jsonrpc": "2.0", "id": 800, "method": "tools/call", "params": {"name": "good_run", "arguments": {"cmd": "sleep 0.2; echo one"}}})
        peer.reply(800)
        scene.goes_on()


def unknown_arguments(suite):
    """Arguments that the tool's schema does not have are refused, and never reach the server."""
    with Scene(suite, "nothing") as scene:
        scene.open()
        result, error = scene.call("good_run", arguments={"cmd": "touch reached", "extra": 1})
        expect(failed(result or {}, error), result)
        expect(not os.path.exists(f"{scene.stage.session}/reached"), "it reached the server")
        result, error = scene.call("good_no_such_tool")
        expect(failed(result or {}, error), result)


def large_request(suite):
    with Scene(suite, "nothing") as scene:
        peer = scene.open()
        word = "w" * (8 << 20)
        number = peer.begin("tools/call", {"name": "good_write", "arguments": {"path": f"{scene.stage.session}/large", "text": word}})
        message, line = peer.reply(number, 60)
        proper(message, line)
        if not failed(message.get("result") or {}, message.get("error")):
            expect(os.path.getsize(f"{scene.stage.session}/large") == len(word), "it was cut")
        scene.goes_on()


def unknown_policy(suite):
    """Nothing is allowed when nothing is said."""
    with Stage(suite, policy="// nothing\n") as stage:
        peer = stage.proxy(servers=[marked(stage, suite.shelf.fixture("worker.py", "good", name="good"))])
        peer.initialize()
        try:
            result = peer.call("good_run", {"cmd": "touch reached"})
            expect(result.get("isError") and text_of(result).startswith("DENIED"), result)
        except Refused:
            pass
        expect(not os.path.exists(f"{stage.session}/reached"), "it reached the server")


def bad_policy(suite):
    """A broken policy at the start: it does not start with less."""
    with Stage(suite, policy="permit(principal, action, resource\n") as stage:
        done = stage.lazaret(*stage.command(servers=[suite.shelf.fixture("worker.py")])[1:], patience=20)
        expect(done.returncode != 0 and "policy.cedar" in done.stderr, f"{done.returncode}: {done.stderr[-300:]}")


def reloaded(suite):
    """Another policy while it runs; a broken one keeps the last."""
    with Stage(suite) as stage:
        peer = stage.proxy(servers=[marked(stage, suite.shelf.fixture("worker.py", "good", name="good"))])
        peer.initialize()

        def allowed():
            reloaded.count += 1
            try:
                return not peer.call("good_run", {"cmd": f"echo {reloaded.count}"}).get("isError")
            except Refused:
                return False

        def becomes(wanted):
            end = time.monotonic() + 5
            while time.monotonic() < end:
                if allowed() == wanted:
                    return True
                time.sleep(0.1)
            return False

        expect(allowed(), "not allowed at first")
        stage.file(f"{stage.policy}/policy.cedar", "forbid(principal, action, resource);\n")
        expect(becomes(False), "still allowed")
        stage.file(f"{stage.policy}/policy.cedar", "permit(principal, action, resource")
        time.sleep(1.5)
        expect(not allowed(), "a broken policy allows")
        expect("policy.cedar" in stage.session_log(), "that it is broken is not told")
        stage.file(f"{stage.policy}/policy.cedar", "permit(principal, action, resource);\n")
        expect(becomes(True), "still denied")


reloaded.count = 0


def configurations(suite):
    """Mistakes in the configuration: where, what, and nothing started."""
    cases = [
        ('{"mcpServers": {', ["mcp-servers.json", "1"]),
        ('{\n  "mcpServers": {\n    "a": {"command": "x",, "args": []}\n  }\n}', ["3"]),
        ('{"mcpServers": {"a": {"args": []}}}', ["command"]),
        ('{"mcpServers": {"a": {"command": 5}}}', ["command"]),
        ('{"mcpServers": {"a": {"command": "x", "sandbox": "no"}}}', ["sandbox"]),
        ('{"mcpServers": {"a": {"command": "x", "sandbox": {"netwrok": false}}}}', ["netwrok"]),
        ('{"mcpServers": {"a": {"command": "x", "command": "y"}}}', ["command"]),
        ('[]', ["mcp-servers.json"]),
    ]
    for text, words in cases:
        with Stage(suite) as stage:
            refuses(stage, text, words)
    with Stage(suite) as stage:
        done = stage.lazaret("mcp", "serve", "--config", f"{stage.root}/missing.json", "--session", stage.session, "--policy", stage.policy)
        expect(done.returncode not in (0, None) and "missing.json" in done.stderr, done.stderr)


CASES = [
    ("a server that crashes at the start", crash_at_start), ("a command that is not there", missing_command),
    ("garbage before the first answer", garbage_at_start), ("a server that never answers", silent_at_start), ("a slow start", slow_start),
    ("a crash in a call", lambda suite: crash_in_a_call(suite, "crash")), ("an abort in a call", lambda suite: crash_in_a_call(suite, "abort")),
    ("a crash with calls waiting", crash_with_calls_waiting), ("a server that hangs", hang), ("the client goes while a server hangs", hang_and_leave),
    ("a flood of notifications", flood), ("a flood to a client that does not read", flood_unread),
    ("garbage on stdout", must_say("garbage", "after garbage")), ("logs on stdout", must_say("logs-on-stdout", "after logs")),
    ("duplicate keys", duplicate_keys), ("a line of 100 MB", huge_line), ("a line that never ends", endless_line),
    ("wrong ids before the right one", wrong_id), ("nothing but a wrong id", only_wrong_id), ("two answers to one request", says("twice", "once")),
    ("a result and an error in one", says("both")), ("neither result nor error", says("neither")), ("a result that is no object", says("odd-result")),
    ("a child that would outlive its server", orphan), ("a child whose server was killed", orphan_of_the_dead),
    ("other tools in the middle of a session", change), ("a server that closes its output", closes_output),
    ("two servers with the same names", collisions), ("a tool named as an alias", alias_of_another), ("odd names", odd_names), ("two thousand tools", many_tools),
    ("SIGTERM, idle", signalled(signal.SIGTERM, False)), ("SIGTERM in a call", signalled(signal.SIGTERM, True)), ("SIGINT in a call", signalled(signal.SIGINT, True)),
    ("SIGHUP in a call", signalled(signal.SIGHUP, True)), ("SIGKILL, idle", signalled(signal.SIGKILL, False)), ("SIGKILL in a call", signalled(signal.SIGKILL, True)),
    ("SIGKILL at many moments of the start", killed_at_start),
    ("a client that sends nonsense", odd_client), ("a client that uses an id twice", same_id_twice), ("arguments that the tool does not have", unknown_arguments),
    ("a request of 8 MB", large_request), ("a policy that says nothing denies", unknown_policy), ("a broken policy at the start", bad_policy),
    ("a policy that changes", reloaded), ("mistakes in the configuration", configurations),
]


# ---- the fixtures themselves ------------------------------------------------------------------------------


def misbehave(suite):
    """Direct, every one of them does what it is there for: else nothing here would prove anything."""
    for way, shown in [("crash", "ends"), ("abort", "ends"), ("hang", "silent"), ("flood", "notes"), ("garbage", "strays"), ("logs-on-stdout", "strays"),
                       ("duplicate-keys", "twice the key"), ("huge-line", "long"), ("only-wrong-id", "silent"), ("wrong-id", "answers"), ("twice", "answers"),
                       ("neither", "odd"), ("both", "odd"), ("orphan", "orphan"), ("change", "changed")]:
        with Stage(suite) as stage:
            with stage.direct(marked(stage, suite.shelf.bad(way))) as peer:
                peer.initialize()
                expect(text_of(peer.call("fine")) == f"fine {way}", f"{way}: not fine")
                number = peer.begin("tools/call", {"name": "act", "arguments": {}})
                message, line = None, b""
                try:
                    message, line = peer.reply(number, 1.5 if shown == "silent" else 30)
                except Silent:
                    expect(shown in ("ends", "silent") and peer.ended == (shown == "ends"), f"{way}: silent")
                time.sleep(0.1)
                seen = {"notes": len(peer.notes) > 10000, "strays": bool(peer.strays), "long": len(line) > 100 << 20, "changed": bool(peer.notes),
                        "answers": len(peer.replies) + len(peer.replies.get(number, [])) > 3, "orphan": any("trap" in one for one in stage.processes().values()),
                        "twice the key": line.count(b'"result"') == 2, "odd": message is not None and ("result" in message) == ("error" in message)}
                expect(seen.get(shown, True), f"{way}: not {shown}: {line[:200]!r} {len(peer.notes)} {peer.strays[:2]} {list(peer.replies)}")


def run(suite, table):
    table.section("f", "servers, clients and configurations that misbehave")
    with table.check("direct, every fixture misbehaves as it should"):
        misbehave(suite)
    if suite.direct_only:
        return
    for name, case in CASES:
        if table.shows(name):
            with table.check(name):
                case(suite)
