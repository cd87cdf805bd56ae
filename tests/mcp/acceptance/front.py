"""The proxy over HTTP: who gets in, and that everything works there as it does over stdio."""

import asyncio
import http.client
import json
import os
import socket
import urllib.parse

from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from .record import expect
from .sdk import Callbacks
from .stage import Stage
from .tools import marked
from .wire import LEGACY, MODERN

HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
         "params": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "front", "version": "1"}}}


def ask(address, method="POST", body=HELLO, token=None, path=None, **headers):
    """One request: (status, headers, text)."""
    target = urllib.parse.urlsplit(address)
    link = http.client.HTTPConnection(target.hostname, target.port, timeout=20)
    given = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"} | {key.replace("_", "-"): value for key, value in headers.items()}
    if token is not None:
        given["Authorization"] = f"Bearer {token}"
    try:
        link.request(method, path or target.path, None if body is None else json.dumps(body) if not isinstance(body, (str, bytes)) else body, given)
        answer = link.getresponse()
        kind = answer.getheader("Content-Type", "")
        # A stream of events need not end: the first answer in it is enough.
        text = b""
        while chunk := answer.read1(65536):
            text += chunk
            if kind.startswith("text/event-stream") and b'"jsonrpc"' in text and text.endswith(b"\n\n"):
                break
        return answer.status, dict(answer.getheaders()), text.decode()
    finally:
        link.close()


def run(suite, table):
    table.section("i", "over HTTP")
    if suite.direct_only:
        return
    with Stage(suite) as stage:
        address = token = None
        with table.check("it says where it listens"):
            # Which tools server-everything shows hangs on what the client can, and clients of several kinds come here.
            peer, address, token = stage.serve_http(servers=[marked(stage, suite.shelf.everything()), marked(stage, suite.shelf.time())], onToolChange="allow")
        if not address:
            return
        port = urllib.parse.urlsplit(address).port
        with table.check("with the token, it answers"):
            status, headers, text = ask(address, token=token)
            expect(status == 200 and "protocolVersion" in text, f"{status}: {text[:200]}")
        with table.check("without the token, or with another, it does not"):
            for wrong in [None, "", "x", token[:-1], token + "0", token.upper()]:
                status, headers, text = ask(address, token=wrong)
                expect(status == 401 and "protocolVersion" not in text, f"{wrong!r}: {status}")
                expect("WWW-Authenticate" in {key.title().replace("Www", "WWW") for key in headers}, f"no WWW-Authenticate: {headers}")
            status, _, _ = ask(address, Authorization=f"Basic {token}")
            expect(status == 401, f"Basic: {status}")
            status, _, _ = ask(f"{address}?token={token}")
            expect(status == 401, f"in the address: {status}")
        with table.check("without the token, other methods do not either"):
            for method in ["GET", "DELETE", "OPTIONS", "PUT", "HEAD"]:
                status, _, _ = ask(address, method, body=None)
                expect(status in (401, 403, 404, 405), f"{method}: {status}")
        with table.check("a page of another site is refused, with the token too"):
            for key, value in [("Host", "evil.example"), ("Host", f"evil.example:{port}"), ("Origin", "http://evil.example"), ("Origin", "null")]:
                status, _, text = ask(address, token=token, **{key: value})
                expect(400 <= status < 500, f"{key}: {value}: {status}")
        with table.check("it listens on loopback only"):
            for family, _, _, _, found in socket.getaddrinfo(socket.gethostname(), port, type=socket.SOCK_STREAM):
                if found[0].startswith("127.") or found[0] == "::1":
                    continue
                with socket.socket(family, socket.SOCK_STREAM) as probe:
                    probe.settimeout(2)
                    expect(probe.connect_ex(found) != 0, f"{found[0]} answers")
        with table.check("what is no JSON-RPC is refused, and it goes on"):
            for body in ["", "x", "[]", "{", '{"jsonrpc":"2.0"}', "null"]:
                status, _, text = ask(address, token=token, body=body)
                expect(400 <= status < 500 or "error" in text, f"{body!r}: {status} {text[:100]}")
            expect(ask(address, token=token)[0] == 200, "it does not go on")
        with table.check("another path is not there"):
            expect(ask(address, token=token, path="/other")[0] == 404, "it is")
        with table.check("a session that is not there is refused with 404"):
            status, _, _ = ask(address, token=token, body={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, Mcp_Session_Id="no-such-session", MCP_Protocol_Version=LEGACY)
            expect(status in (400, 404), status)
        for mode in ["legacy", "auto", MODERN]:
            with table.check(f"the official client, {mode}"):
                asyncio.run(asyncio.wait_for(talk(address, token, mode), 60))
        with table.check("two clients at once do not get each other's answers"):
            asyncio.run(asyncio.wait_for(together(address, token), 60))
        with table.check("the token is in no log, and no list of processes"):
            expect(token not in stage.session_log() + stage.read(stage.audit), "it is in a log")
            expect(not [one for one in stage.processes().values() if token in one], "it is in a command line")
        with table.check("it ends well"):
            peer.process.terminate()
            peer.process.wait(10)
            expect(not stage.nothing_left(), stage.processes())
    with Stage(suite) as stage, table.check("a token that others can read is refused, and so is an address that is not loopback"):
        stage.file(f"{stage.root}/open-token", "0123456789abcdef0123456789abcdef\n", 0o644)
        servers = [marked(stage, suite.shelf.time())]
        for more in [["--http", "0.0.0.0:0"], ["--http", "127.0.0.1:0", "--token-file", f"{stage.root}/open-token"]]:
            done = stage.lazaret(*stage.command(*more, servers=servers)[1:], patience=15)
            expect(done.returncode != 0, f"{more}: {done.stderr}")


def client(address, token, mode, calls):
    links = create_mcp_http_client(headers={"Authorization": f"Bearer {token}"})
    return Client(streamable_http_client(address, http_client=links), mode=mode, sampling_callback=calls.sample, elicitation_callback=calls.elicit,
                  list_roots_callback=calls.roots, logging_callback=calls.log, read_timeout_seconds=30)


async def talk(address, token, mode):
    calls = Callbacks()
    async with client(address, token, mode, calls) as peer:
        names = [tool.name for tool in (await peer.list_tools()).tools]
        expect({"echo", "get_current_time"} <= set(names), names)
        result = await peer.call_tool("echo", {"message": f"over HTTP \u2603 {os.getpid()}"})
        expect("\u2603" in result.content[0].text, result)
        if mode != MODERN:
            await peer.call_tool("trigger-long-running-operation", {"duration": 0.3, "steps": 3}, progress_callback=calls.progress)
            expect(len(calls.progressed) == 3, calls.progressed)
        if mode == "legacy":
            for _ in range(50):
                if "trigger-sampling-request" in [tool.name for tool in (await peer.list_tools()).tools]:
                    break
                await asyncio.sleep(0.1)
            result = await peer.call_tool("trigger-sampling-request", {"prompt": "p"})
            expect("sampled" in result.content[0].text, result)


async def together(address, token):
    async def one(word):
        async with client(address, token, "legacy", Callbacks()) as peer:
            for number in range(15):
                result = await peer.call_tool("echo", {"message": f"{word}-{number}"})
                expect(result.content[0].text.endswith(f"{word}-{number}"), result)

    await asyncio.gather(one("first"), one("second"), one("third"))
