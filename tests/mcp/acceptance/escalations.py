"""Calls that wait for a person: asked in files, answered in files or by `lazaret escalation`."""

import json
import os
import time

from .record import Unable, expect
from .stage import Stage
from .tools import marked
from .wire import Silent, text_of

REASON = "writing needs a word from somebody"
POLICY = f"""permit(principal, action, resource);

@escalate("{REASON}")
permit(principal, action == Action::"exec/write", resource);
"""
STRANGER = 54399


class Waiting:
    """A proxy, and a call in it that waits for an answer."""

    def __init__(self, suite):
        self.stage = Stage(suite, policy=POLICY)
        self.open = self.stage.directory(f"{self.stage.root}/open", 0o700)
        server = suite.shelf.fixture("worker.py", name="exec").with_(sandbox={"filesystem": {"allowWrite": [self.open]}})
        self.peer = self.stage.proxy(servers=[marked(self.stage, server)], escalationTimeoutSeconds=30)

    def __enter__(self):
        self.peer.initialize()
        return self

    def __exit__(self, *_):
        self.stage.close()

    @property
    def directory(self):
        """The link in the session directory leads there; a server may turn the link, to no avail."""
        if not getattr(self, "real", None):
            link = f"{self.stage.session}/escalations"
            self.real = os.path.realpath(link) if os.path.islink(link) else None
            return self.real or link
        return self.real

    def write(self, name="asked", **more):
        """Begins a call that is escalated; gives its number and the question."""
        known = set(self.files())
        self.target = name if name.startswith("/") else f"{self.stage.session}/{name}"
        number = self.peer.begin("tools/call", {"name": "write", "arguments": {"path": self.target}} | more)
        return number, self.question(known)

    def question(self, known=frozenset()):
        end = time.monotonic() + 10
        while time.monotonic() < end:
            for name in self.files():
                if name not in known and name.startswith("request-") and name.endswith(".json"):
                    return json.loads(self.stage.read(f"{self.directory}/{name}"))
            time.sleep(0.05)
        raise Silent(f"no question in {self.directory}: {self.peer.replies}")

    def files(self):
        try:
            return sorted(os.listdir(self.directory))
        except FileNotFoundError:
            return []

    def answer(self, question, **content):
        """As a front end does: a file beside, then renamed."""
        path = f"{self.directory}/response-{question['escalationId']}.json"
        self.stage.file(f"{self.directory}/.answer", json.dumps(content), 0o600)
        os.rename(f"{self.directory}/.answer", path)
        return path

    def outcome(self, number, patience=15):
        message, _ = self.peer.reply(number, patience)
        if "error" in message:
            return message["error"]["message"], True
        return text_of(message["result"]), bool(message["result"].get("isError"))

    def approved(self, number):
        text, failed = self.outcome(number)
        expect(not failed and os.path.exists(self.target), f"not done: {text}")

    def denied(self, number, patience=15):
        text, failed = self.outcome(number, patience)
        expect(failed and not os.path.exists(self.target), f"it was done: {text}")
        expect(text.startswith(("ESCALATION DENIED", "DENIED")), f"the answer: {text}")
        return text

    def gone(self):
        end = time.monotonic() + 5
        while time.monotonic() < end and [name for name in self.files() if name.startswith("request-")]:
            time.sleep(0.05)
        left = [name for name in self.files() if name.startswith("request-")]
        expect(not left, f"the question is still there: {left}")


def by_file(suite):
    with Waiting(suite) as waiting:
        number, question = waiting.write()
        for key in ["escalationId", "serverName", "toolName", "arguments", "reason"]:
            expect(key in question, f"{key} is not in {question}")
        expect((question["serverName"], question["toolName"]) == ("exec", "write") and question["arguments"]["path"] == waiting.target, question)
        expect(REASON in question["reason"], question["reason"])
        expect(os.stat(waiting.directory).st_mode & 0o077 == 0, "others can enter the directory")
        time.sleep(0.7)
        expect(number not in waiting.peer.replies and not os.path.exists(waiting.target), "it did not wait")
        waiting.answer(question, decision="approved")
        waiting.approved(number)
        waiting.gone()
        text = waiting.stage.read(waiting.stage.audit)
        expect("escalat" in text.lower() and "approved" in text, text[-300:])


def denied_by_file(suite):
    with Waiting(suite) as waiting:
        number, question = waiting.write()
        waiting.answer(question, decision="denied")
        waiting.denied(number)
        waiting.gone()


def nonsense_denies(suite):
    with Waiting(suite) as waiting:
        for index, content in enumerate([{"decision": "yes"}, {"decision": "Approved"}, {"decision": True}, {}, {"decision": ["approved"]}]):
            number, question = waiting.write(f"asked-{index}")
            waiting.answer(question, **content)
            waiting.denied(number)
        number, question = waiting.write("asked-text")
        waiting.stage.file(f"{waiting.directory}/.answer", '{"decision": "denied", "decision": "approved"}', 0o600)
        os.rename(f"{waiting.directory}/.answer", f"{waiting.directory}/response-{question['escalationId']}.json")
        waiting.denied(number)
        # Not the owner's word: a link.
        number, question = waiting.write("asked-link")
        waiting.stage.file(f"{waiting.stage.root}/elsewhere", '{"decision": "approved"}', 0o600)
        os.symlink(f"{waiting.stage.root}/elsewhere", f"{waiting.directory}/response-{question['escalationId']}.json")
        waiting.denied(number, 40)


def of_a_stranger(suite):
    if os.geteuid() != 0:
        raise Unable("a file of somebody else: needs root")
    with Waiting(suite) as waiting:
        number, question = waiting.write()
        waiting.stage.file(f"{waiting.directory}/.answer", '{"decision": "approved"}', 0o644)
        os.chown(f"{waiting.directory}/.answer", STRANGER, STRANGER)
        os.rename(f"{waiting.directory}/.answer", f"{waiting.directory}/response-{question['escalationId']}.json")
        waiting.denied(number, 40)


def by_command(suite):
    with Waiting(suite) as waiting:
        number, question = waiting.write()
        listed = waiting.stage.lazaret("escalation", "list")
        expect(listed.returncode == 0 and "write" in listed.stdout and "exec" in listed.stdout, f"{listed.stdout} {listed.stderr}")
        machine = waiting.stage.lazaret("escalation", "list", "--json")
        expect(question["escalationId"] in machine.stdout, f"{machine.stdout[:300]} {machine.stderr}")
        json.loads(machine.stdout)
        shown = waiting.stage.lazaret("escalation", "show", question["escalationId"])
        expect(shown.returncode == 0 and waiting.target in shown.stdout and REASON in shown.stdout, f"{shown.stdout} {shown.stderr}")
        done = waiting.stage.lazaret("escalation", "approve", question["escalationId"])
        expect(done.returncode == 0, done.stderr)
        waiting.approved(number)
        # Once means once.
        number, question = waiting.write("again")
        done = waiting.stage.lazaret("escalation", "deny", question["escalationId"])
        expect(done.returncode == 0, done.stderr)
        waiting.denied(number)
        empty = waiting.stage.lazaret("escalation", "list", "--json")
        expect(question["escalationId"] not in empty.stdout, empty.stdout)
        unknown = waiting.stage.lazaret("escalation", "approve", "00000000-0000-4000-8000-000000000000")
        expect(unknown.returncode != 0 and unknown.stderr, "an unknown question was approved")


def for_the_session(suite):
    """Approved for this directory: the same directory is not asked for again, another is."""
    with Waiting(suite) as waiting:
        inside, other = waiting.stage.directory(f"{waiting.open}/inside"), waiting.stage.directory(f"{waiting.open}/other")
        number, question = waiting.write(f"{inside}/one")
        expect(question.get("whitelistCandidates"), f"nothing is offered for the session: {question}")
        expect(inside in question["whitelistCandidates"][0]["description"], question["whitelistCandidates"])
        waiting.answer(question, decision="approved", whitelistSelection=0)
        waiting.approved(number)
        result = waiting.peer.call("write", {"path": f"{inside}/two"})
        expect(not result.get("isError") and os.path.exists(f"{inside}/two"), f"asked again, or not done: {result}")
        number, question = waiting.write(f"{other}/one")
        waiting.answer(question, decision="denied")
        waiting.denied(number)
        for name in [f"{inside}/../other/dots", f"{inside}/link"]:
            if name.endswith("link"):
                os.symlink(f"{other}/through-link", name)
            number = waiting.peer.begin("tools/call", {"name": "write", "arguments": {"path": name}})
            question = waiting.question()
            waiting.answer(question, decision="denied")
            waiting.outcome(number)
        expect(not os.listdir(other), os.listdir(other))


def others_go_on(suite):
    with Waiting(suite) as waiting:
        number, question = waiting.write()
        began = time.monotonic()
        expect("good" in text_of(waiting.peer.call("run", {"cmd": "echo good"})), "the same server does not answer")
        expect("write" in waiting.peer.tools(), "not listed")
        expect(time.monotonic() - began < 3, "it took long")
        second = waiting.write("second")
        waiting.answer(second[1], decision="approved")
        waiting.approved(second[0])
        waiting.answer(question, decision="denied")
        text, failed = waiting.outcome(number)
        expect(failed, text)


def progress(suite):
    with Waiting(suite) as waiting:
        number, question = waiting.write(_meta={"progressToken": "wait-1"})
        note = waiting.peer.note("notifications/progress", lambda params: params["progressToken"] == "wait-1", 12)
        expect("progress" in note, note)
        waiting.peer.until(lambda: len(waiting.peer.noted("notifications/progress")) >= 2, 15, "a second notification")
        steps = [params["progress"] for params in waiting.peer.noted("notifications/progress")]
        expect(steps == sorted(set(steps)), f"progress must grow: {steps}")
        waiting.answer(question, decision="approved")
        waiting.approved(number)
        count = len(waiting.peer.noted("notifications/progress"))
        time.sleep(3)
        expect(len(waiting.peer.noted("notifications/progress")) == count, "it goes on after the answer")
    with Waiting(suite) as waiting:
        number, question = waiting.write()
        time.sleep(3)
        expect(not waiting.peer.noted("notifications/progress"), "progress without a token")
        waiting.answer(question, decision="denied")
        waiting.denied(number)


def timeout(suite):
    with Waiting(suite) as waiting:
        began = time.monotonic()
        number, question = waiting.write()
        waiting.denied(number, 45)
        took = time.monotonic() - began
        expect(28 < took < 36, f"it took {took:.1f} s")
        waiting.gone()
        late = waiting.stage.lazaret("escalation", "approve", question["escalationId"])
        expect(late.returncode != 0, "it was approved afterwards")


def cancelled(suite):
    with Waiting(suite) as waiting:
        number, question = waiting.write()
        waiting.peer.notify("notifications/cancelled", {"requestId": number})
        waiting.gone()
        waiting.answer(question, decision="approved")
        time.sleep(1.5)
        expect(not os.path.exists(waiting.target), "done after it was cancelled")


def left_alone(suite):
    """The client goes while somebody is being asked."""
    with Waiting(suite) as waiting:
        waiting.write()
        expect(waiting.peer.close() == 0, "it did not end well")
        waiting.gone()
        expect(not os.path.exists(waiting.target), "it was done")


def hidden_from_servers(suite):
    with Waiting(suite) as waiting:
        number, question = waiting.write()
        word = question["escalationId"]
        result = waiting.peer.call("run", {"cmd": f"ls -la escalations; cat escalations/*; echo '{{\"decision\": \"approved\"}}' > escalations/response-{word}.json; "
                                                  f"mv escalations moved; ln -s /tmp escalations; true"})
        expect(word not in text_of(result).replace(f"response-{word}.json", ""), text_of(result))
        time.sleep(1)
        expect(number not in waiting.peer.replies, "the server answered for the person")
        waiting.answer(question, decision="denied")
        waiting.denied(number)


CASES = [
    ("asked and approved in files", by_file), ("denied in a file", denied_by_file), ("whatever is not an approval denies", nonsense_denies),
    ("an answer that belongs to somebody else", of_a_stranger), ("list, show, approve, deny", by_command), ("approved for the session, for one directory", for_the_session),
    ("everything else goes on meanwhile", others_go_on), ("progress while it waits, if asked for", progress), ("nobody answers", timeout),
    ("cancelled while it waits", cancelled), ("the client goes while it waits", left_alone), ("a server cannot answer for the person", hidden_from_servers),
]


def run(suite, table):
    table.section("g", "calls that wait for a person")
    if suite.direct_only:
        return
    for name, case in CASES:
        if table.shows(name):
            with table.check(name):
                case(suite)
