"""Nothing is lost on the way: unknown fields, odd numbers and text, both ways, in every kind of message."""

import json
import subprocess

from .record import expect, same
from .stage import Stage
from .tools import marked
from .wire import Refused, exact

PROGRESS = '"progressToken": "p-1"'


def spelt(peer, number, method, params):
    """Sends a request as text; gives the line of the answer."""
    peer.say_text('{"jsonrpc": "2.0", "id": %s, "method": %s, "params": %s}' % (json.dumps(number), json.dumps(method), params))
    return peer.reply(number)[1]


def heard(line, at):
    """What the fixture says it heard."""
    value = exact(line)
    for key in at:
        value = value[int(key)] if isinstance(value, list) else value[key]
    return exact(bytes.fromhex(value))


class Asked:
    """A peer whose answers to a server's request are text of our own."""

    def __init__(self, peer, odd):
        self.peer, self.odd, self.lines = peer, odd, []
        peer._answer = self.answer

    def answer(self, message):
        self.lines.append(self.peer.lines[-1])
        token = json.dumps(message["params"]["_meta"]["progressToken"])
        self.peer.say_text('{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": %s, "progress": 1.0, %s}}' % (token, self.odd))
        self.peer.say_text('{"jsonrpc": "2.0", "id": %s, "result": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "t", %s}, %s}}'
                           % (json.dumps(message["id"]), self.odd, self.odd))


def play(peer, odd):
    """Everything that arrived at the other end, by name."""
    result = peer.initialize(capabilities={"sampling": {}, "x-client": {"a": [1.5]}, "experimental": {"vendor.example": {"b": 1}}})
    found = {"the server's capabilities": result["capabilities"]}
    listed = exact(spelt(peer, 100, "tools/list", '{"_meta": {%s}, "x-param": 1.0}' % odd))["result"]
    found["the list of tools"] = listed.pop("tools")
    found["what is beside the list of tools"] = listed
    params = '{"name": "mirror", "arguments": {"anything": [1.0, {%s}], "more": "\\ud83d\\ude00 \\u0000"}, "_meta": {"vendor.example/a": 1.0, %s}, %s}' % (odd, PROGRESS, odd)
    for number in (101, "a string \u00e9 id"):
        line = spelt(peer, number, "tools/call", params)
        message = exact(line)
        # The text is the fixture's account of the request; the rest is as it was sent.
        arrived = heard(line, ["result", "content", 0, "text"])
        message["result"]["content"][0]["text"] = ""
        found[f"a result, id {number!r}"] = message["result"]
        found[f"the answer's id {number!r}"] = message["id"]
        found[f"a call, id {number!r}"] = arrived["params"]
        expect(arrived["jsonrpc"] == "2.0", arrived)
        same(exact(params), arrived["params"], "what arrived at the server")
    asked = Asked(peer, odd)
    line = spelt(peer, 103, "tools/call", '{"name": "ask", "arguments": {}}')
    found["a request of the server"] = exact(asked.lines[0])["params"]
    # Tokens of several servers could be the same: the proxy may have its own. It must be the server's again on the way back.
    found["a request of the server"]["_meta"].pop("progressToken")
    reply, progress = exact(line)["result"]["content"][0]["text"].split()
    found["the client's answer"] = exact(bytes.fromhex(reply))["result"]
    found["the client's progress"] = exact(bytes.fromhex(progress))["params"]
    try:
        peer.call("throw")
        found["an error"] = "none"
    except Refused as error:
        found["an error"] = error.error
    return found


def vendor(peer, odd):
    """Methods and notifications that the protocol does not have."""
    line = spelt(peer, 110, "x-vendor/anything", '{"a": 1.0, %s, "_meta": {%s}}' % (odd, odd))
    message = exact(line)
    if "error" in message:
        return {"a request that nobody knows": message["error"]}
    arrived = heard(line, ["result", "heard"])
    message["result"]["heard"] = ""
    return {"a request that nobody knows": message["result"], "as it arrived": arrived["params"]}


def notices(peer, odd):
    peer.say_text('{"jsonrpc": "2.0", "method": "notifications/x-odd", "params": {"a": 1.0, %s}}' % odd)
    peer.note("notifications/x-heard", patience=5)
    line = [line for message, line in peer.notes if message["method"] == "notifications/x-heard"][0]
    message = exact(line)
    arrived = heard(line, ["params", "heard"])
    message["params"]["heard"] = ""
    return {"a notification that nobody knows": message["params"], "as it arrived": arrived["params"]}


def run(suite, table):
    table.section("a", "nothing is lost on the way")
    fixture = suite.shelf.fixture("mirror.py")
    odd = subprocess.run([*fixture.command, "--odd"], capture_output=True, text=True, check=True).stdout.strip()
    outcomes = []
    for way in ["direct"] + ["through the proxy"] * (not suite.direct_only):
        found = {}
        with Stage(suite) as stage:
            with (stage.direct(fixture) if way == "direct" else stage.proxy(servers=[marked(stage, fixture)])) as peer:
                for name, part in [("calls, results, errors, questions", play), ("unknown requests", vendor), ("unknown notifications", notices)]:
                    with table.check(f"{name} arrive whole: {way}"):
                        found |= part(peer, odd)
                with table.check(f"nothing comes that is not JSON-RPC: {way}"):
                    expect(not peer.strays, peer.strays)
        outcomes.append(found)
    if len(outcomes) == 2:
        for name, value in outcomes[0].items():
            with table.check(f"the same both ways: {name}"):
                expect(name in outcomes[1], "it did not come")
                same(value, outcomes[1][name], name)
