"""A JSON-RPC peer at the end of a pipe: what a client writes and hears, kept as it came. Knows what a server may ask
of a client, and answers it; knows nothing of any particular server."""

import collections
import json
import os
import signal
import subprocess
import threading
import time

LEGACY, MODERN = "2025-11-25", "2026-07-28"
PATIENCE = 20.0
KEPT_OF_A_LINE = 1 << 22

ROOTS = [{"uri": "file:///first/root", "name": "First"}, {"uri": "file:///second/root", "name": "Zweite \u00e4"}]


class Number(str):
    """A number as it was spelt: 1.0 is not 1, and 12345678901234567890 is not its nearest double."""

    __slots__ = ()

    def __eq__(self, other):
        return isinstance(other, Number) and str.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__

    def __repr__(self):
        return str(self)


class Duplicate(Exception):
    """An object with the same key twice."""


def _object(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Duplicate([key for key, count in collections.Counter(key for key, _ in pairs).items() if count > 1])
    return found


def exact(text):
    """A JSON text with numbers as they are spelt; refuses duplicate keys."""
    return json.loads(text, parse_int=Number, parse_float=Number, object_pairs_hook=_object)


def loose(text):
    return json.loads(text)


class Refused(Exception):
    """The answer was a JSON-RPC error."""

    def __init__(self, error):
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.error = error


class Silent(Exception):
    """No answer came in time, or the other end is gone."""


class Person:
    """Who answers what servers ask of a client."""

    def __init__(self):
        self.asked = []
        self.tasks = {}

    def capabilities(self):
        return {
            "roots": {"listChanged": True}, "sampling": {}, "elicitation": {"form": {}, "url": {}},
            "tasks": {"list": {}, "cancel": {}, "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}},
        }

    def answer(self, method, params):
        self.asked.append((method, params))
        params = params or {}
        if method == "ping":
            return {}
        if method == "roots/list":
            return {"roots": ROOTS}
        if method in ("sampling/createMessage", "elicitation/create"):
            answer = self.sample(params) if method.startswith("sampling") else self.elicit(params)
            if "task" not in params:
                return answer
            name = f"task-{len(self.tasks)}"
            self.tasks[name] = answer
            return {"task": self.task(name)}
        if method == "tasks/get":
            return self.task(params["taskId"])
        if method == "tasks/result":
            return self.tasks[params["taskId"]]
        return None

    def task(self, name):
        moment = "2026-01-01T00:00:00Z"
        return {"taskId": name, "status": "completed", "ttl": 60000, "pollInterval": 100, "createdAt": moment, "lastUpdatedAt": moment}

    def sample(self, params):
        return {"role": "assistant", "model": "a-model", "stopReason": "endTurn", "content": {"type": "text", "text": "sampled \u2603"}}

    def elicit(self, params):
        if params.get("mode") == "url":
            return {"action": "accept"}
        chosen = {}
        for name, schema in (params.get("requestedSchema") or {}).get("properties", {}).items():
            chosen[name] = self.choose(schema)
        return {"action": "accept", "content": chosen}

    def choose(self, schema):
        if "default" in schema:
            return schema["default"]
        if "enum" in schema:
            return schema["enum"][0]
        if "oneOf" in schema:
            return schema["oneOf"][0]["const"]
        kind = schema.get("type")
        if kind == "array":
            return [self.choose(schema.get("items", {}))]
        if kind in ("integer", "number"):
            return schema.get("minimum", 1)
        if kind == "boolean":
            return True
        return {"email": "a@example.org", "uri": "https://example.org/", "date": "2026-01-02"}.get(schema.get("format"), "Ada Lovelace")


class Peer:
    """A started server (or proxy) and everything that it said."""

    def __init__(self, command, cwd, env, log, user=None, person=None):
        self.person, self.log = person or Person(), log
        self.farewell = 10.0  # how long it may take to end when the client goes
        self.lines, self.notes, self.replies, self.strays = [], [], {}, []
        self.ended, self.changed, self.last = False, threading.Condition(), 0
        identity = {} if user is None or os.geteuid() != 0 else {"user": user, "group": user, "extra_groups": []}
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                                            start_new_session=True, **identity)
        self.writing = threading.Lock()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    # What comes ------------------------------------------------------------------------------------

    def _read(self):
        for line in self.process.stdout:
            try:
                message = loose(line)
            except ValueError:
                message = None
            with self.changed:
                if len(line) < KEPT_OF_A_LINE:
                    self.lines.append(line)
                if not isinstance(message, dict):
                    self.strays.append(line[:300])
                elif "method" in message and "id" in message:
                    self._answer(message)
                elif "method" in message:
                    self.notes.append((message, line))
                elif type(message.get("id")) in (str, int):
                    self.replies.setdefault(message["id"], []).append((message, line))
                else:
                    self.strays.append(line[:300])
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def _answer(self, message):
        found = self.person.answer(message["method"], message.get("params"))
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        reply |= {"error": {"code": -32601, "message": "Method not found"}} if found is None else {"result": found}
        # Not here: the other end may read nothing before we have read more.
        threading.Thread(target=self.say, args=(reply,), daemon=True).start()

    # What goes -------------------------------------------------------------------------------------

    def say_text(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        try:
            with self.writing:
                self.process.stdin.write(data + b"\n")
                self.process.stdin.flush()
        except (OSError, ValueError) as error:
            raise Silent(f"the other end is gone ({error}): {self.errors()}") from error

    def say(self, message):
        self.say_text(json.dumps(message))

    def notify(self, method, params=None):
        self.say({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))

    def begin(self, method, params=None):
        self.last += 1
        self.say({"jsonrpc": "2.0", "id": self.last, "method": method} | ({} if params is None else {"params": params}))
        return self.last

    def until(self, found, patience=PATIENCE, what="it"):
        """What `found` gives, once it gives something."""
        end = time.monotonic() + patience
        with self.changed:
            while not (result := found()):
                if self.ended:
                    raise Silent(f"the other end went away before {what} came: {self.errors()}")
                if (left := end - time.monotonic()) <= 0:
                    raise Silent(f"{what} did not come within {patience:g} s: {self.errors()}")
                self.changed.wait(left)
            return result

    def reply(self, number, patience=PATIENCE):
        """The whole answer, and its line."""
        return self.until(lambda: self.replies.get(number), patience, f"the answer to request {number}")[0]

    def request(self, method, params=None, patience=PATIENCE):
        message, _ = self.reply(self.begin(method, params), patience)
        if "error" in message:
            raise Refused(message["error"])
        return message["result"]

    def request_exact(self, method, params=None, patience=PATIENCE):
        _, line = self.reply(self.begin(method, params), patience)
        message = exact(line)
        if "error" in message:
            raise Refused(message["error"])
        return message["result"]

    def note(self, method, matching=lambda params: True, patience=PATIENCE):
        return self.until(lambda: self.noted(method, matching), patience, f"a notification {method}")[0]

    def noted(self, method, matching=lambda params: True):
        return [message.get("params", {}) for message, _ in self.notes if message["method"] == method and matching(message.get("params", {}))]

    # The usual -------------------------------------------------------------------------------------

    def initialize(self, version=LEGACY, capabilities=None, patience=PATIENCE):
        result = self.request("initialize", {
            "protocolVersion": version, "capabilities": self.person.capabilities() if capabilities is None else capabilities,
            "clientInfo": {"name": "acceptance", "version": "1"}}, patience)
        self.notify("notifications/initialized")
        return result

    def modern(self, method, params=None, meta=None, patience=PATIENCE):
        """A request of the generation without `initialize`."""
        return self.request(method, self.modern_params(params, meta), patience)

    def modern_params(self, params=None, meta=None):
        prefix = "io.modelcontextprotocol/"
        return dict(params or {}) | {"_meta": {
            prefix + "protocolVersion": MODERN, prefix + "clientInfo": {"name": "acceptance", "version": "1"},
            prefix + "clientCapabilities": {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}, **(meta or {})}}

    def list(self, method, key, extra=None):
        """All pages."""
        found, cursor = [], None
        while True:
            params = (extra or {}) | ({"cursor": cursor} if cursor else {})
            page = self.request_exact(method, params or None)
            found += page[key]
            if not (cursor := page.get("nextCursor")):
                return found

    def tools(self):
        return {tool["name"]: tool for tool in self.list("tools/list", "tools")}

    def call(self, tool, arguments=None, patience=PATIENCE, **more):
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}, **more}, patience)

    # The end ---------------------------------------------------------------------------------------

    def errors(self):
        with open(self.log, "rb") as file:
            text = file.read().decode(errors="replace").strip().splitlines()
        return " | ".join(text[-3:])[-300:]

    def close(self):
        """Closes our end, as a client does; the exit status, or None if it had to be killed."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            code = self.process.wait(self.farewell)
        except subprocess.TimeoutExpired:
            code = None
            self.kill()
        self.reader.join(2)
        return code

    def kill(self):
        try:
            self.process.send_signal(signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def text_of(result):
    """The text of a tool's result."""
    return "\n".join(block.get("text", "") for block in result.get("content", []))
