"""The command line of the MCP Inspector, in both generations of it."""

import json
import os
import subprocess

from .record import expect, same
from .stage import Stage
from .tools import marked
from .variable import steady

QUESTIONS = [
    ("tools/list", ["--method", "tools/list"]),
    ("tools/call", ["--method", "tools/call", "--tool-name", "get-sum", "--tool-arg", "a=2", "b=40"]),
    ("tools/call with text", ["--method", "tools/call", "--tool-name", "echo", "--tool-arg", "message=h\u00e9llo"]),
    ("resources/list", ["--method", "resources/list"]),
    ("resources/templates/list", ["--method", "resources/templates/list"]),
    ("resources/read", ["--method", "resources/read", "--uri", "demo://resource/dynamic/text/1"]),
    ("prompts/list", ["--method", "prompts/list"]),
    ("prompts/get", ["--method", "prompts/get", "--prompt-name", "args-prompt", "--prompt-args", "city=Ulm"]),
]


def ask(suite, stage, generation, command, question):
    cli = f"{suite.shelf.cache}/{generation}/node_modules/.bin/mcp-inspector"
    env = stage.environment()
    env["PATH"] = os.path.dirname(suite.shelf.node) + os.pathsep + env["PATH"]
    # By a file, since words on the command line that look like options would be taken for the inspector's own.
    entry = {"type": "stdio", "command": command[0], "args": command[1:], "env": env}
    file = stage.file(f"{stage.root}/inspected.json", json.dumps({"mcpServers": {"it": entry}}))
    done = subprocess.run([*suite.as_user(), cli, "--cli", "--config", file, "--server", "it", *question], env=env, cwd=stage.root, capture_output=True,
                          text=True, timeout=60, stdin=subprocess.DEVNULL)
    expect(done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-400:]}")
    return json.loads(done.stdout[done.stdout.index("{"):])


def run(suite, table):
    table.section("b", "the inspector's command line")
    for generation in ["inspector-0", "inspector-2"]:
        with Stage(suite) as stage:
            server = marked(stage, suite.shelf.everything())
            for name, question in QUESTIONS:
                with table.check(f"{generation}: {name}"):
                    direct = ask(suite, stage, generation, server.command, question)
                    if not suite.direct_only:
                        proxied = ask(suite, stage, generation, stage.command(servers=[server]), question)
                        same(steady(direct), steady(proxied), "what it prints")
