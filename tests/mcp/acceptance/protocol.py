"""What is not a tool call: resources, prompts, completions, logging, progress, cancellation, and what servers ask of
clients. Each is done direct and through the proxy, and must give the same."""

import time

from .record import expect, same
from .stage import Stage
from .tools import marked
from .variable import steady
from .wire import LEGACY, Refused, Silent, text_of

LONG, LAST = "trigger-long-running-operation", "trigger-elicitation-request-async"


def conditional_tools(peer):
    """Tools that the server shows when it knows what the client can: with word of it, or there from the beginning."""
    before = set(peer.tools())
    end = time.monotonic() + 10
    while LAST not in (names := set(peer.tools())) and time.monotonic() < end:
        time.sleep(0.1)
    expect(LAST in names, sorted(names))
    expect(LAST in before or peer.noted("notifications/tools/list_changed"), "they came without word of it")
    return sorted(names - {"get_current_time", "convert_time"})


def resources(peer):
    found = {
        "list": peer.list("resources/list", "resources"),
        "templates": peer.list("resources/templates/list", "resourceTemplates"),
    }
    for resource in found["list"][:3]:
        found["read " + resource["uri"]] = peer.request_exact("resources/read", {"uri": resource["uri"]})
    for uri in ["demo://resource/dynamic/text/3", "demo://resource/dynamic/blob/4"]:
        found["read " + uri] = peer.request_exact("resources/read", {"uri": uri})
    expect(len(found["list"]) >= 3 and len(found["templates"]) >= 2, f"{len(found['list'])} resources, {len(found['templates'])} templates")
    return found


def missing_resource(peer):
    """Refused; in whose words does not matter, with several servers it is nobody's but the proxy's."""
    try:
        expect(False, peer.request("resources/read", {"uri": "demo://resource/no/such"}))
    except Refused as error:
        expect(error.error["code"] in (-32602, -32002), error.error)


def prompts(peer):
    found = {"list": peer.list("prompts/list", "prompts")}
    for name, arguments in [("simple-prompt", None), ("args-prompt", {"city": "Ulm"}), ("completable-prompt", {"department": "Sales", "name": "Eve"}),
                            ("resource-prompt", {"resourceType": "Text", "resourceId": "1"})]:
        found[name] = peer.request_exact("prompts/get", {"name": name} | ({"arguments": arguments} if arguments else {}))
    expect({prompt["name"] for prompt in found["list"]} == set(found) - {"list"}, f"{[prompt['name'] for prompt in found['list']]}")
    return found


def missing_prompt(peer):
    """Refused; in whose words does not matter, with several servers it is nobody's but the proxy's."""
    try:
        expect(False, peer.request("prompts/get", {"name": "no-such-prompt"}))
    except Refused as error:
        expect(error.error["code"] in (-32602, -32002), error.error)


def completions(peer):
    def complete(reference, name, value, **context):
        return peer.request_exact("completion/complete", {"ref": reference, "argument": {"name": name, "value": value}, **context})

    prompt = {"type": "ref/prompt", "name": "completable-prompt"}
    found = [
        complete(prompt, "department", "S"),
        complete(prompt, "name", "", context={"arguments": {"department": "Sales"}}),
        complete({"type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}"}, "resourceId", "1"),
    ]
    expect(found[0]["completion"]["values"], found)
    return found


def subscription(peer):
    uri = "demo://resource/dynamic/text/9"
    answers = [peer.request("resources/subscribe", {"uri": uri})]
    peer.call("toggle-subscriber-updates")
    note = peer.note("notifications/resources/updated", patience=15)
    peer.call("toggle-subscriber-updates")
    answers.append(peer.request("resources/unsubscribe", {"uri": uri}))
    return answers, note


def logging(peer):
    answer = peer.request("logging/setLevel", {"level": "debug"})
    peer.call("toggle-simulated-logging")
    note = peer.note("notifications/message", lambda params: "Roots" not in str(params), patience=15)
    peer.call("toggle-simulated-logging")
    return answer, sorted(note)


def progress(peer):
    for token in ["a token", 77]:
        peer.call(LONG, {"duration": 0.6, "steps": 3}, _meta={"progressToken": token})
        # They may come a moment after the answer.
        peer.until(lambda: len(peer.noted("notifications/progress", lambda params: params.get("progressToken") == token)) >= 3, 5,
                   f"three notifications with the token {token!r}")
    found = peer.noted("notifications/progress")
    ours = [params for params in found if type(params["progressToken"]) in (str, int)]
    expect([params["progressToken"] for params in ours] == ["a token"] * 3 + [77] * 3, found)
    return found


def cancellation(peer):
    """A cancelled request is not answered, and the server is told: it sends no progress any more."""
    number = peer.begin("tools/call", {"name": LONG, "arguments": {"duration": 6, "steps": 6}, "_meta": {"progressToken": "cancelled"}})
    peer.note("notifications/progress", lambda params: params["progressToken"] == "cancelled")
    peer.notify("notifications/cancelled", {"requestId": number, "reason": "enough"})
    time.sleep(1.5)
    same([], [message for message, _ in peer.replies.get(number, []) if "result" in message], "the answers")
    return peer.call("echo", {"message": "still here"})


def roots(peer):
    text = text_of(peer.call("get-roots-list"))
    expect("file:///second/root" in text and "Zweite" in text, text)
    before = [method for method, _ in peer.person.asked].count("roots/list")
    peer.notify("notifications/roots/list_changed")
    peer.until(lambda: [method for method, _ in peer.person.asked].count("roots/list") > before, 5, "a new question for the roots")
    return text


def sampling(peer):
    text = text_of(peer.call("trigger-sampling-request", {"prompt": "What is a lazaret?", "maxTokens": 11}))
    expect("sampled \u2603" in text, text)
    return text, [params for method, params in peer.person.asked if method == "sampling/createMessage"][-1]


def elicitation(peer):
    text = text_of(peer.call("trigger-elicitation-request"))
    asked = [params for method, params in peer.person.asked if method == "elicitation/create"][-1]
    expect("requestedSchema" in asked, asked)
    return text, asked


def pings(peer):
    return peer.request("ping")


def unknown_method(peer):
    try:
        return peer.request("x-vendor/does-not-exist", {"a": 1})
    except Refused as error:
        return error.error["code"]


def unknown_tool(peer):
    """An error or a result that says so: which of the two is the server's choice, and the proxy may be stricter."""
    try:
        expect(peer.call("no-such-tool").get("isError"), "it was called")
    except Refused:
        pass


PARTS = [
    ("tools that come later", conditional_tools),
    ("resources: list, templates, read", resources), ("a resource that is not there", missing_resource),
    ("prompts: list, get", prompts), ("a prompt that is not there", missing_prompt), ("completions", completions),
    ("ping", pings), ("roots: asked for, and again when they change", roots), ("sampling: the client answers", sampling),
    ("elicitation: the client answers", elicitation), ("progress of a long operation", progress),
    ("cancellation", cancellation), ("subscriptions", subscription), ("logging: level and messages", logging),
    ("a method that nobody has", unknown_method), ("a tool that nobody has", unknown_tool),
]


def play(table, peer, way):
    peer.initialize()
    found = {}
    for name, part in PARTS:
        with table.check(f"{name}: {way}"):
            found[name] = part(peer)
    return found


def run(suite, table):
    table.section("a", "everything that is not a tool call")
    direct = proxied = {}
    with Stage(suite) as stage:
        server = suite.shelf.everything()
        with stage.direct(server) as peer:
            direct = play(table, peer, "direct")
        if suite.direct_only:
            return
        with stage.proxy(servers=[marked(stage, server), suite.shelf.time()]) as peer:
            proxied = play(table, peer, "through the proxy")
    for name in direct:
        if name in proxied:
            with table.check(f"{name}: the same both ways"):
                same(steady(direct[name]), steady(proxied[name]), "what came")
    versions(suite, table)


def versions(suite, table):
    """Every version with `initialize` is negotiated as the server itself would."""
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", LEGACY, "1999-01-01"]:
        with Stage(suite) as stage:
            with table.check(f"a client of version {version}"):
                with stage.direct(suite.shelf.everything()) as peer:
                    direct = peer.initialize(version, {})["protocolVersion"]
                with stage.proxy(servers=[marked(stage, suite.shelf.everything())]) as peer:
                    proxied = peer.initialize(version, {})["protocolVersion"]
                    expect("echo" in peer.tools(), "no tools")
                    expect(text_of(peer.call("echo", {"message": version})).endswith(version), "no echo")
                same(direct, proxied, "the negotiated version")
