"""Every tool of every real server: listed the same and answering the same through the proxy as direct."""

import base64
import contextlib
import http.server
import json
import os
import subprocess
import threading
import time

from .record import Unable, Wrong, expect, same
from .stage import Stage
from .variable import steady
from .wire import Refused, text_of

GIT_ENV = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.org"), ("DATE", "1767323045 +0000"))}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Real:
    """A real server, what must be there before, and one call or more for each of its tools."""

    def __init__(self, server, calls, prepare=lambda stage: None, capabilities=None, settled=None):
        self.server, self.calls, self.prepare = server, calls, prepare
        self.capabilities, self.settled = capabilities, settled


def everything(shelf, stage):
    data = "data:text/plain;base64," + base64.b64encode(b"packed " * 20).decode()
    return Real(shelf.everything(), [
        ("echo", {"message": "h\u00e9llo \u2603 \U0001f600"}),
        *(("get-annotated-message", {"messageType": kind, "includeImage": True}) for kind in ("error", "success", "debug")),
        ("get-env", {}),
        ("get-resource-links", {"count": 4}),
        ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
        ("get-resource-reference", {"resourceType": "Blob", "resourceId": 2}),
        ("get-structured-content", {"location": "Chicago"}),
        ("get-sum", {"a": 1.5, "b": 2}),
        ("get-tiny-image", {}),
        ("gzip-file-as-resource", {"name": "packed.gz", "data": data, "outputType": "resource"}),
        ("gzip-file-as-resource", {"name": "linked.gz", "data": data, "outputType": "resourceLink"}),
        ("toggle-simulated-logging", {}), ("toggle-simulated-logging", {}),
        ("toggle-subscriber-updates", {}), ("toggle-subscriber-updates", {}),
        ("trigger-long-running-operation", {"duration": 0.3, "steps": 3}),
        ("get-roots-list", {}),
        ("trigger-elicitation-request", {}),
        ("trigger-url-elicitation", {"url": "https://example.org/", "elicitationId": "e-1"}),
        ("trigger-url-elicitation", {"url": "https://example.org/", "elicitationId": "e-2", "errorPath": True}),
        ("trigger-sampling-request", {"prompt": "Say something", "maxTokens": 7}),
        ("simulate-research-query", {"topic": "quarantine"}, {"task": {"ttl": 60000}}),
        ("trigger-sampling-request-async", {"prompt": "Say it later"}),
        ("trigger-elicitation-request-async", {}),
    ], settled="trigger-elicitation-request-async")


def filesystem(shelf, stage):
    at = stage.session

    def prepare(stage):
        # The proxy has one there, of which servers see an empty one.
        stage.directory(f"{at}/escalations", 0o700)
        for name, text in [("one.txt", "first\nsecond\nthird\n"), ("two.txt", "zwei \u00e4\u00f6\u00fc\n")]:
            os.utime(stage.file(f"{at}/{name}", text), (1767323045, 1767323045))
        with open(f"{at}/dot.png", "wb") as file:
            file.write(base64.b64decode(PIXEL))
        stage.own(f"{at}/dot.png")

    return Real(shelf.filesystem(at), [
        ("list_allowed_directories", {}),
        ("read_file", {"path": f"{at}/one.txt"}),
        ("read_text_file", {"path": f"{at}/one.txt", "head": 2}),
        ("read_text_file", {"path": f"{at}/one.txt", "tail": 1}),
        ("read_media_file", {"path": f"{at}/dot.png"}),
        ("read_multiple_files", {"paths": [f"{at}/one.txt", f"{at}/two.txt", f"{at}/missing.txt"]}),
        ("write_file", {"path": f"{at}/new.txt", "content": "line a\nline b\n"}),
        ("edit_file", {"path": f"{at}/new.txt", "edits": [{"oldText": "line a", "newText": "line \u00e4"}], "dryRun": True}),
        ("edit_file", {"path": f"{at}/new.txt", "edits": [{"oldText": "line a", "newText": "line \u00e4"}]}),
        ("create_directory", {"path": f"{at}/deep/er"}),
        ("move_file", {"source": f"{at}/new.txt", "destination": f"{at}/deep/moved.txt"}),
        ("list_directory", {"path": at}),
        ("list_directory_with_sizes", {"path": at, "sortBy": "name"}),
        ("directory_tree", {"path": at}),
        ("search_files", {"path": at, "pattern": "**/*.txt"}),
        ("get_file_info", {"path": f"{at}/one.txt"}),
        ("read_text_file", {"path": f"{at}/missing.txt"}),
    ], prepare, capabilities={})


def memory(shelf, stage):
    return Real(shelf.memory(f"{stage.session}/memory.jsonl"), [
        ("create_entities", {"entities": [{"name": "Ada", "entityType": "person", "observations": ["likes \u2211", "writes notes"]},
                                          {"name": "Engine", "entityType": "machine", "observations": []}]}),
        ("create_relations", {"relations": [{"from": "Ada", "to": "Engine", "relationType": "programs"}]}),
        ("add_observations", {"observations": [{"entityName": "Engine", "contents": ["is analytical"]}]}),
        ("read_graph", {}),
        ("search_nodes", {"query": "analytical"}),
        ("open_nodes", {"names": ["Ada"]}),
        ("delete_observations", {"deletions": [{"entityName": "Ada", "observations": ["writes notes"]}]}),
        ("delete_relations", {"relations": [{"from": "Ada", "to": "Engine", "relationType": "programs"}]}),
        ("delete_entities", {"entityNames": ["Engine"]}),
        ("read_graph", {}),
    ])


def thinking(shelf, stage):
    step = {"thought": "First, look.", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 2}
    return Real(shelf.thinking(), [
        ("sequentialthinking", step),
        ("sequentialthinking", step | {"thought": "Then leap.", "thoughtNumber": 2, "nextThoughtNeeded": False}),
    ])


def git(shelf, stage):
    at = f"{stage.session}/repository"

    def prepare(stage):
        env = stage.environment(**GIT_ENV)
        identity = {} if stage.suite.user is None else {"user": stage.suite.user, "group": stage.suite.user, "extra_groups": []}

        def run(*args):
            subprocess.run(["git", "-C", at, *args], check=True, env=env, capture_output=True, **identity)

        stage.directory(at)
        run("init", "-q", "-b", "main")
        stage.file(f"{at}/file", "one\n")
        run("add", "file")
        run("commit", "-q", "-m", "First")
        stage.file(f"{at}/file", "one\ntwo\n")

    found = shelf.git(at)
    found.env = dict(GIT_ENV)
    repo = {"repo_path": at}
    return Real(found, [
        ("git_status", repo),
        ("git_diff_unstaged", repo),
        ("git_add", repo | {"files": ["file"]}),
        ("git_diff_staged", repo | {"context_lines": 1}),
        ("git_reset", repo),
        ("git_add", repo | {"files": ["file"]}),
        ("git_commit", repo | {"message": "Second: \u00fc"}),
        ("git_log", repo | {"max_count": 5}),
        ("git_create_branch", repo | {"branch_name": "side"}),
        ("git_checkout", repo | {"branch_name": "side"}),
        ("git_diff", repo | {"target": "HEAD~1"}),
        ("git_show", repo | {"revision": "HEAD"}),
        ("git_branch", repo | {"branch_type": "local"}),
        ("git_checkout", repo | {"branch_name": "no-such-branch"}),
    ], prepare)


def time_(shelf, stage):
    return Real(shelf.time(), [
        ("get_current_time", {"timezone": "Asia/Tokyo"}),
        ("convert_time", {"source_timezone": "Europe/Berlin", "time": "16:30", "target_timezone": "Asia/Tokyo"}),
        ("convert_time", {"source_timezone": "No/Where", "time": "16:30", "target_timezone": "Asia/Tokyo"}),
    ])


def fetch(shelf, stage, port):
    page = f"http://localhost:{port}/page"
    reachable = {"network": {"allowedDomains": ["localhost"]}}
    return Real(shelf.fetch().with_(sandbox=reachable), [
        ("fetch", {"url": page}),
        ("fetch", {"url": page, "raw": True, "max_length": 20, "start_index": 5}),
        ("fetch", {"url": f"http://localhost:{port}/missing"}),
    ])


class Web(contextlib.AbstractContextManager):
    """A web server of the host, and what it was asked for."""

    def __init__(self, host="127.0.0.1"):
        asked = self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                asked.append(self.path)
                found = self.path.startswith("/page")
                body = b"<html><head><title>T</title></head><body><article><h1>A page</h1><p>Some words to read, quite a few of them.</p></article></body></html>"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((host, 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def listed(peer, real):
    """The tools, once the server has shown those that hang on what the client can."""
    end = time.monotonic() + 10
    while True:
        tools = peer.tools()
        names = {name.rpartition("__")[2] for name in tools}
        if not real.settled or real.settled in names or time.monotonic() > end:
            return tools
        time.sleep(0.1)


def outcome(peer, tool, arguments, more):
    """A result or an error, as a value to compare."""
    try:
        return {"result": peer.call(tool, arguments, 30, **more)}
    except Refused as error:
        return {"error": error.error}


def finished(peer, found):
    """A task, followed to its end."""
    task = found.get("result", {}).get("task")
    if not task:
        return found
    end = time.monotonic() + 30
    seen = []
    while time.monotonic() < end:
        state = peer.request("tasks/get", {"taskId": task["taskId"]})
        seen.append(state["status"])
        if state["status"] in ("completed", "failed", "cancelled"):
            return {"created": found, "last": state, "result": peer.request("tasks/result", {"taskId": task["taskId"]})}
        time.sleep(0.3)
    raise Wrong(f"the task did not end: {seen}")


def round_(stage, peer, real, alias=None):
    """Initialises, lists, calls everything."""
    hello = peer.initialize(capabilities=real.capabilities)
    tools = listed(peer, real)
    answers = []
    for call in real.calls:
        tool, arguments, more = (*call, {})[:3]
        found = outcome(peer, f"{alias}__{tool}" if alias else tool, arguments, more)
        answers.append((tool, arguments, finished(peer, found)))
    return hello, tools, answers


def usual(found, tool):
    if tool == "get-env" and "result" in found:
        return {"result": sorted({"PATH", "HOME"} & set(json.loads(text_of(found["result"]))))}
    return steady(found)


def run(suite, table):
    table.section("a", "every tool of every server works, and answers as it does direct")
    makers = [everything, filesystem, memory, thinking, git, time_]
    with Web() as web:
        makers.append(lambda shelf, stage: fetch(shelf, stage, web.port))
        names = ["everything", "filesystem", "memory", "thinking", "git", "time", "fetch"]
        for name, maker in zip(names, makers):
            if suite.wanted(name):
                with Stage(suite) as stage:
                    one(suite, table, stage, name, maker(suite.shelf, stage))
        if suite.wanted("together"):
            with Stage(suite) as stage:
                together(suite, table, stage, [maker(suite.shelf, stage) for maker in makers])


def one(suite, table, stage, name, real):
    direct = proxied = None
    with table.check(f"{name}: works direct"):
        real.prepare(stage)
        with stage.direct(real.server) as peer:
            direct = round_(stage, peer, real)
        uncalled = set(direct[1]) - {call[0] for call in real.calls}
        expect(not uncalled, f"tools without a call here: {sorted(uncalled)}")
        good = {tool for tool, _, found in direct[2] if "result" in found and not found["result"].get("isError")}
        expect(not set(direct[1]) - good, f"no call of these succeeds: {sorted(set(direct[1]) - good)}: "
               f"{[found for tool, _, found in direct[2] if tool not in good][:2]}")
    if suite.direct_only or not direct:
        return
    stage.fresh_session()
    with table.check(f"{name}: can be spoken to through the proxy"):
        real.prepare(stage)
        with stage.proxy(servers=[marked(stage, real.server)]) as peer:
            proxied = round_(stage, peer, real)
    if not proxied:
        return
    with table.check(f"{name}: the same tools, described the same"):
        same(direct[1], proxied[1], "the list of tools")
    with table.check(f"{name}: the capabilities of the server are offered"):
        missing = {key: value for key, value in direct[0]["capabilities"].items() if key not in proxied[0]["capabilities"]}
        expect(not missing, f"not offered: {missing}")
    for (tool, arguments, first), (_, _, second) in zip(direct[2], proxied[2]):
        with table.check(f"{name}: {tool} {json.dumps(arguments)[:60]}"):
            same(usual(first, tool), usual(second, tool), "the answer")


def marked(stage, server):
    """With the stage's mark in its environment, so that what it leaves behind is found."""
    server.env = server.env | {"LAZARET_STAGE": stage.mark}
    return server


def together(suite, table, stage, reals):
    """All servers behind one proxy."""
    if suite.direct_only:
        return
    for real in reals:
        real.prepare(stage)
    with table.check("all servers behind one proxy: every tool is listed once, and works by both names"):
        with stage.proxy(servers=[marked(stage, real.server) for real in reals]) as peer:
            peer.initialize(capabilities={}, patience=60)
            wanted = {real.server.name: {call[0] for call in real.calls} for real in reals}
            tools = peer.tools()
            for name, own in wanted.items():
                if name == "everything":
                    own = {tool for tool in own if tool in tools}
                    expect(len(own) > 10, f"everything: {sorted(own)}")
                expect(own <= set(tools), f"{name}: not listed: {sorted(own - set(tools))}")
            for real in reals:
                tool, arguments = real.calls[0][:2]
                plain, alias = (outcome(peer, tool_name, arguments, {}) for tool_name in (tool, f"{real.server.name}__{tool}"))
                expect("result" in plain and not plain["result"].get("isError"), f"{tool}: {plain}")
                expect("result" in alias and not alias["result"].get("isError"), f"{real.server.name}__{tool}: {alias}")
