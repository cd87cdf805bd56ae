"""Both generations of the protocol: clients and servers with `initialize`, and those of 2026-07-28 without."""

import asyncio

from .record import Wrong, expect, same
from .sdk import Callbacks, client
from .stage import Stage
from .tools import marked
from .variable import steady
from .wire import MODERN, Refused, text_of

META = {"vendor.example/kept": {"a": 1.0}}


def modern_talk(peer):
    """The newest client, raw, with server `modern` (which is of both generations)."""
    found = {"discover": peer.modern("server/discover")}
    expect(MODERN in found["discover"]["supportedVersions"], found)
    found["tools"] = peer.modern("tools/list", meta=META)
    found["call"] = peer.modern("tools/call", {"name": "add", "arguments": {"a": 40, "b": 2}}, META)
    found["failure"] = peer.modern("tools/call", {"name": "fail", "arguments": {}})
    found["resources"] = peer.modern("resources/list")
    found["templates"] = peer.modern("resources/templates/list")
    found["read"] = peer.modern("resources/read", {"uri": "note://one"})
    found["template"] = peer.modern("resources/read", {"uri": "note://by-name/b"})
    found["prompts"] = peer.modern("prompts/list")
    found["prompt"] = peer.modern("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}})
    # Once more: the first may have been answered before a slow server was there.
    found["discover"] = peer.modern("server/discover")
    return found


def run(suite, table):
    table.section("c", "both generations")
    shelf = suite.shelf
    outcomes = []
    for way in ["direct"] + ["through the proxy"] * (not suite.direct_only):
        with Stage(suite) as stage, table.check(f"a client of {MODERN} and a server of both: {way}"):
            server = marked(stage, shelf.fixture("modern.py"))
            with (stage.direct(server) if way == "direct" else stage.proxy(servers=[server])) as peer:
                outcomes.append(modern_talk(peer))
                expect(text_of(outcomes[-1]["call"]) == "42" and outcomes[-1]["failure"]["isError"], outcomes[-1])
    if len(outcomes) == 2:
        for part in outcomes[0]:
            with table.check(f"the same both ways: {part}"):
                one, other = steady(outcomes[0][part]), steady(outcomes[1][part])
                if part == "discover":
                    # Whose name it is, and how long it may be kept, is the proxy's to say.
                    missing = [key for key in one["capabilities"] if key not in other["capabilities"]]
                    expect(not missing, f"capabilities that are not offered: {missing}")
                    one, other = ({"resultType": each.get("resultType"), "supported": MODERN in each["supportedVersions"]} for each in (one, other))
                else:
                    for each in (one, other):
                        each.get("_meta", {}).pop("io.modelcontextprotocol/serverInfo", None)
                        each.pop("ttlMs", None), each.pop("cacheScope", None)
                same(one, other, part)
    for mode in ["legacy", "auto", MODERN]:
        for maker, tool, arguments in [(lambda: shelf.fixture("modern.py"), "add", {"a": 1, "b": 2}), (shelf.time, "get_current_time", {"timezone": "Etc/UTC"}),
                                       (shelf.everything, "echo", {"message": "hello"})]:
            name = maker().name
            if name == "everything" and mode == MODERN and suite.direct_only:
                continue  # it has no such generation itself
            for way in ["direct"] + ["through the proxy"] * (not suite.direct_only):
                if name == "everything" and mode == MODERN and way == "direct":
                    continue
                with Stage(suite) as stage, table.check(f"the official client, {mode}, with {name}: {way}"):
                    server = marked(stage, maker())
                    command = server.command if way == "direct" else stage.command(servers=[server])
                    asyncio.run(asyncio.wait_for(official(stage, command, mode, tool, arguments), 60))
    newest(suite, table)
    mixed(suite, table)


async def official(stage, command, mode, tool, arguments):
    async with client(stage, command, mode, Callbacks(), stage.environment()) as peer:
        expect(any(one.name == tool for one in (await peer.list_tools()).tools), f"{tool} is not listed")
        result = await peer.call_tool(tool, arguments)
        expect(not result.is_error and result.content, result)
        if mode == MODERN:
            expect(peer.protocol_version == MODERN, peer.protocol_version)


def newest(suite, table):
    """A server that has no `initialize` at all."""
    for way in ["direct"] + ["through the proxy"] * (not suite.direct_only):
        with Stage(suite) as stage:
            server = marked(stage, suite.shelf.fixture("newest.py"))

            def open_():
                return stage.direct(server) if way == "direct" else stage.proxy(servers=[server])

            with table.check(f"a client of {MODERN} and a server of nothing else: {way}"):
                with open_() as peer:
                    expect(text_of(peer.modern("tools/call", {"name": "shout", "arguments": {"word": "hey"}})) == "HEY", "not called")
            with table.check(f"a question inside of a result, answered in the next request: {way}"):
                with open_() as peer:
                    first = peer.modern("tools/call", {"name": "ask", "arguments": {}})
                    expect(first["resultType"] == "input_required" and "who" in first["inputRequests"] and first["requestState"] == "state-1", first)
                    answer = {"who": {"action": "accept", "content": {"name": "Ada"}}}
                    second = peer.modern("tools/call", {"name": "ask", "arguments": {}, "inputResponses": answer, "requestState": "state-1"})
                    expect(text_of(second) == "Ada with state-1", second)
            if way == "direct":
                continue
            with table.check(f"a client with initialize and a server of nothing but {MODERN}: {way}"):
                with open_() as peer:
                    peer.initialize()
                    expect("shout" in peer.tools(), "not listed")
                    expect(text_of(peer.call("shout", {"word": "hey"})) == "HEY", "not called")


def mixed(suite, table):
    """Servers of all generations behind one proxy, for clients of both."""
    if suite.direct_only:
        return
    calls = [("echo", {"message": "m"}, "m"), ("add", {"a": 1, "b": 1}, "2"), ("shout", {"word": "w"}, "W"), ("get_current_time", {"timezone": "Etc/UTC"}, "UTC")]
    for kind in ["initialize", MODERN]:
        with Stage(suite) as stage, table.check(f"servers of all generations behind one proxy, a client of {kind}"):
            servers = [suite.shelf.everything(), suite.shelf.fixture("modern.py"), suite.shelf.fixture("newest.py"), suite.shelf.time()]
            with stage.proxy(servers=[marked(stage, server) for server in servers]) as peer:
                if kind == "initialize":
                    peer.initialize(capabilities={}, patience=40)
                    ask = peer.request
                else:
                    peer.modern("server/discover", patience=40)
                    ask = peer.modern
                names = {tool["name"] for tool in ask("tools/list")["tools"]}
                expect({name for name, _, _ in calls} <= names, f"not listed: {[name for name, _, _ in calls if name not in names]}")
                for name, arguments, word in calls:
                    try:
                        result = ask("tools/call", {"name": name, "arguments": arguments})
                    except Refused as error:
                        raise Wrong(f"{name}: {error}") from error
                    expect(word in text_of(result), f"{name}: {result}")
    with Stage(suite) as stage, table.check("a client that asks before it introduces itself gets an answer, not silence"):
        with stage.proxy(servers=[marked(stage, suite.shelf.time())]) as peer:
            try:
                peer.request("tools/list", patience=20)
            except Refused as error:
                expect(error.error.get("code", 0) < 0, error.error)
