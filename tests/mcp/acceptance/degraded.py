"""Where no sandbox can be had: `enforce` does not start, `warn` starts and says so. The rows of the requirement."""

import json
import os
import shutil
import time

from .record import Unable, expect
from .stage import Stage
from .tools import marked
from .wire import Refused, Silent, text_of

FATAL = '[sandbox] FATAL: sandboxPolicy is "enforce" but'
WARNING = "[sandbox] WARNING: OS-level sandboxing unavailable"


def without_namespaces(suite):
    """Words in front of a command: inside a user namespace that allows no more, without capabilities."""
    if not (shutil.which("unshare") and shutil.which("setpriv")):
        raise Unable("needs unshare and setpriv")
    user = suite.user if suite.user is not None and os.geteuid() == 0 else os.geteuid()
    script = 'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all "$@"'
    return ["unshare", "-U", f"--map-user={user}", f"--map-group={user}", "--keep-caps", "sh", "-c", script, "sh"]


def starter(suite, stage, name, **more):
    """A server that leaves a trace when it is started."""
    worker = suite.shelf.fixture("worker.py", name, name=name)
    worker.command = ["/bin/sh", "-c", 'touch "$0" && exec "$@"', f"{stage.session}/started-{name}", *worker.command]
    return marked(stage, worker.with_(**more))


def started(stage):
    return [name for name in os.listdir(stage.session) if name.startswith("started-")]


def entries(stage):
    """The values of `sandboxed` in the audit log's entries about calls, by server."""
    found = {}

    def look(value):
        if isinstance(value, dict):
            if "sandboxed" in value:
                found.setdefault(value.get("serverName"), set()).add(value["sandboxed"])
            for inner in value.values():
                look(inner)
        elif isinstance(value, list):
            for inner in value:
                look(inner)

    for event in stage.events():
        look(event)
    return found


def run(suite, table):
    table.section("e", "where no sandbox can be had")
    if suite.direct_only:
        return
    for name, servers in [("one server", lambda stage: [starter(suite, stage, "one")]),
                          ("one server in a sandbox and one without", lambda stage: [starter(suite, stage, "free", sandbox=False), starter(suite, stage, "one")])]:
        with Stage(suite) as stage, table.check(f"enforce, {name}: does not start, says why, nothing was started"):
            with stage.proxy(servers=servers(stage), under=without_namespaces(suite), sandboxPolicy="enforce") as peer:
                try:
                    peer.initialize(patience=15)
                    expect(False, "it answers")
                except (Silent, Refused):
                    pass
                code = peer.close()
                expect(code not in (0, None), f"exit code {code}")
                expect(FATAL in stage.session_log(), stage.session_log()[-400:])
                expect(not started(stage), started(stage))
                expect(not peer.lines, peer.lines)
                expect(not stage.nothing_left(), stage.processes())
    for name, top in [("warn", {"sandboxPolicy": "warn"}), ("nothing said, which means warn", {})]:
        with Stage(suite) as stage, table.check(f"{name}: starts, warns, and the audit log says sandboxed false"):
            with stage.proxy(servers=[starter(suite, stage, "one")], under=without_namespaces(suite), **top) as peer:
                peer.initialize()
                expect("good" in text_of(peer.call("one_run", {"cmd": "echo good"})), "no answer")
                expect(WARNING in stage.session_log(), stage.session_log()[-400:])
                peer.close()
            same = entries(stage)
            expect(same and all(values == {False} for values in same.values()), f"{same} in {stage.read(stage.audit)[-300:]}")
    with Stage(suite) as stage, table.check("enforce where it can be had: starts, sandboxed true, and false for the one that opted out"):
        with stage.proxy(servers=[starter(suite, stage, "free", sandbox=False), starter(suite, stage, "one")], sandboxPolicy="enforce") as peer:
            peer.initialize()
            for name in ["free", "one"]:
                expect("good" in text_of(peer.call(f"{name}_run", {"cmd": "echo good"})), f"no answer from {name}")
            peer.close()
        same = entries(stage)
        expect(same.get("one") == {True} and same.get("free") == {False}, f"{same} in {stage.read(stage.audit)[-300:]}")
    with Stage(suite) as stage, table.check("an unknown word for sandboxPolicy is an error, with its place"):
        refuses(stage, json.dumps({"mcpServers": {}, "sandboxPolicy": "enforced"}), ["sandboxPolicy"])


def refuses(stage, text, words):
    """The proxy does not start with this configuration, and says why."""
    command = stage.command()
    stage.file(f"{stage.root}/mcp-servers.json", text)
    began = time.monotonic()
    done = stage.lazaret(*command[1:], patience=20)
    expect(done.returncode not in (0, None), f"exit code {done.returncode}")
    expect(time.monotonic() - began < 10, "it took long")
    for word in words:
        expect(word in done.stderr, done.stderr[-300:])
    expect(not done.stdout, done.stdout)
    return done.stderr
