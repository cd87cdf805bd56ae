"""The Python client of the official SDK, which checks every answer against the protocol's types."""

import asyncio

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from .record import expect, same
from .stage import Stage
from .tools import marked


class Callbacks:
    """A client's side of sampling, elicitation, roots, logging."""

    def __init__(self):
        self.asked, self.logged, self.progressed = [], [], []

    async def sample(self, context, params):
        self.asked.append("sampling")
        return types.CreateMessageResult(role="assistant", content=types.TextContent(type="text", text="sampled"), model="m")

    async def elicit(self, context, params):
        self.asked.append("elicitation")
        return types.ElicitResult(action="decline")

    async def roots(self, context):
        self.asked.append("roots")
        return types.ListRootsResult(roots=[types.Root(uri="file:///r", name="R")])

    async def log(self, params):
        self.logged.append(params.data)

    async def progress(self, done, total, message):
        self.progressed.append((done, total))


def client(stage, command, mode, calls, environment):
    log = open(stage.log(), "w")
    command = [*stage.suite.as_user(), *command]
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=environment, cwd=stage.session)
    return Client(stdio_client(parameters, errlog=log), mode=mode, sampling_callback=calls.sample, elicitation_callback=calls.elicit,
                  list_roots_callback=calls.roots, logging_callback=calls.log, read_timeout_seconds=30)


async def talk(stage, command, environment):
    """What a legacy client does with server-everything."""
    calls, found = Callbacks(), {}
    async with client(stage, command, "legacy", calls, environment) as peer:
        found["version"] = peer.protocol_version
        for _ in range(50):
            tools = (await peer.list_tools()).tools
            if any(tool.name == "trigger-elicitation-request" for tool in tools):
                break
            await asyncio.sleep(0.1)
        found["tools"] = sorted(tool.name for tool in tools)
        found["sum"] = (await peer.call_tool("get-sum", {"a": 2, "b": 3})).content[0].text
        found["structured"] = (await peer.call_tool("get-structured-content", {"location": "New York"})).structured_content
        found["progress"] = (await peer.call_tool("trigger-long-running-operation", {"duration": 0.3, "steps": 3}, progress_callback=calls.progress)).is_error
        found["sampling"] = (await peer.call_tool("trigger-sampling-request", {"prompt": "p"})).content[0].text
        found["elicitation"] = [block.text for block in (await peer.call_tool("trigger-elicitation-request", {})).content]
        found["roots"] = (await peer.call_tool("get-roots-list", {})).content[0].text
        found["resources"] = sorted(str(resource.uri) for resource in (await peer.list_resources()).resources)
        found["templates"] = sorted(template.uri_template for template in (await peer.list_resource_templates()).resource_templates)
        found["read"] = type((await peer.read_resource(found["resources"][0])).contents[0]).__name__
        found["prompts"] = sorted(prompt.name for prompt in (await peer.list_prompts()).prompts)
        found["prompt"] = (await peer.get_prompt("args-prompt", {"city": "Ulm"})).messages[0].content.text
        found["error"] = (await peer.call_tool("get-sum", {"a": "x", "b": 3})).is_error
    found["asked"] = sorted(set(calls.asked))
    found["progressed"] = calls.progressed
    return found


def run(suite, table):
    table.section("a", "the official Python client")
    outcomes = []
    for way in ["direct"] + ["through the proxy"] * (not suite.direct_only):
        with Stage(suite) as stage, table.check(f"tools, resources, prompts, callbacks: {way}"):
            server = marked(stage, suite.shelf.everything())
            command = server.command if way == "direct" else stage.command(servers=[server])
            outcomes.append(asyncio.run(asyncio.wait_for(talk(stage, command, stage.environment()), 90)))
            expect(outcomes[-1]["progressed"] == [(1.0, 3.0), (2.0, 3.0), (3.0, 3.0)], outcomes[-1]["progressed"])
            expect(outcomes[-1]["asked"] == ["elicitation", "roots", "sampling"], outcomes[-1]["asked"])
    if len(outcomes) == 2:
        with table.check("the same both ways"):
            same(*outcomes, "what came")
