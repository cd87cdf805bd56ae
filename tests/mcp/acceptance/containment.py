"""What a server can do to the host when the policy allows everything: no more than its sandbox does. Every act is done
direct first, where it must succeed, or "refused" would prove nothing."""

import os

from .record import expect
from .stage import Stage
from .tools import Web, marked
from .wire import Refused, text_of

BLOCKED = "[SANDBOX BLOCKED]"


def words(peer, tool, arguments):
    """What the caller reads: (text, whether it failed)."""
    try:
        result = peer.call(tool, arguments, 30)
    except Refused as error:
        return str(error.error.get("message", "")), True
    return text_of(result), bool(result.get("isError"))


def refused(peer, tool, arguments, by=(BLOCKED,)):
    text, failed = words(peer, tool, arguments)
    expect(failed, f"it succeeded: {text[:200]}")
    expect(text.startswith(tuple(by)), f"the answer does not begin with {' or '.join(by)}: {text[:300]}")
    return text


class Outside:
    """A file that must not come into being, or change."""

    def __init__(self, stage, path, through=None, was=None, own_inside=False):
        self.path, self.through, self.was = path, through or path, was
        self.own_inside = own_inside  # the sandbox has such a place of its own
        self.stage = stage

    def restore(self):
        if self.was is None:
            if os.path.lexists(self.path):
                os.remove(self.path)
        else:
            self.stage.file(self.path, self.was)

    def touched(self):
        return self.stage.read(self.path) != (self.was or "") or (self.was is None and os.path.lexists(self.path))


def places(stage):
    outside = stage.directory(f"{stage.root}/outside")
    stage.file(f"{outside}/there", "as it was\n")
    session = stage.session
    for name, target in [("link", outside), ("link-to-file", f"{outside}/there"), ("dangling", f"{outside}/not-yet"), ("up", ".."), ("root", "/")]:
        os.symlink(target, f"{session}/{name}")
        stage.own(f"{session}/{name}")
    stage.directory(f"{session}/sub")
    mark = stage.mark
    return {
        "a new file in the home directory": Outside(stage, f"{stage.home}/new"),
        "an existing file in the home directory": Outside(stage, f"{stage.home}/notes", was="notes of the owner\n"),
        "a start-up file of the shell": Outside(stage, f"{stage.home}/.bashrc"),
        "a key": Outside(stage, f"{stage.home}/.ssh/authorized_keys"),
        "/etc": Outside(stage, f"/etc/{mark}"),
        "/usr/local/bin": Outside(stage, f"/usr/local/bin/{mark}"),
        "/var/tmp": Outside(stage, f"/var/tmp/{mark}", own_inside=True),
        "/tmp": Outside(stage, f"/tmp/{mark}", own_inside=True),
        "/dev/shm": Outside(stage, f"/dev/shm/{mark}", own_inside=True),
        "beside the session directory": Outside(stage, f"{stage.root}/beside"),
        "a directory through a link": Outside(stage, f"{outside}/through-link", f"{session}/link/through-link"),
        "a file through a link": Outside(stage, f"{outside}/there", f"{session}/link-to-file", "as it was\n"),
        "a file that is not there yet, through a link": Outside(stage, f"{outside}/not-yet", f"{session}/dangling"),
        "above, through a link": Outside(stage, f"{stage.root}/up-link", f"{session}/up/up-link"),
        "the root, through a link": Outside(stage, f"{stage.home}/by-root", f"{session}/root{stage.home}/by-root"),
        "above, by dots": Outside(stage, f"{stage.root}/dots", f"{session}/../dots"),
        "above, by many dots": Outside(stage, f"{stage.root}/many-dots", f"{session}/sub/.././sub/../../many-dots"),
        "by way of /proc/self/cwd": Outside(stage, f"{stage.root}/by-proc", "/proc/self/cwd/../by-proc"),
        "by way of /proc/self/root": Outside(stage, f"{stage.home}/by-proc-root", f"/proc/self/root{stage.home}/by-proc-root"),
    }


def run(suite, table):
    table.section("d", "a server stays in its sandbox whatever the policy says")
    filesystem(suite, table)
    fixture(suite, table)
    settings(suite, table)
    environment(suite, table)
    network(suite, table)


def filesystem(suite, table):
    with Stage(suite) as stage:
        server = marked(stage, suite.shelf.filesystem("/"))
        key = {"path": f"{stage.home}/.ssh/id_test"}
        targets = places(stage)
        # What direct does not succeed in (as an ordinary user: /etc) is not looked at.
        able = {}
        with table.check("server-filesystem on /, direct: reads the key, writes outside"):
            with stage.direct(server) as peer:
                peer.initialize(capabilities={})
                text, failed = words(peer, "read_text_file", key)
                expect(stage.secret in text and not failed, text)
                for name, place in targets.items():
                    _, failed = words(peer, "write_file", {"path": place.through, "content": "planted"})
                    able[name] = not failed and place.touched()
                    place.restore()
            expect(sum(able.values()) >= 12, able)
        if suite.direct_only:
            return
        with stage.proxy(servers=[server]) as peer:
            with table.check("server-filesystem on / starts"):
                peer.initialize(capabilities={})
            with table.check("it cannot read ~/.ssh/id_test"):
                text = refused(peer, "read_text_file", key)
                expect(stage.secret not in text, text)
            with table.check("it cannot read it in company"):
                text, _ = words(peer, "read_multiple_files", {"paths": [f"{stage.home}/.ssh/id_test", f"{stage.session}/nothing"]})
                expect(stage.secret not in text, text)
            with table.check("it cannot read it by its other tools"):
                for tool, arguments in [("read_media_file", key), ("read_file", key), ("get_file_info", key), ("list_directory", {"path": f"{stage.home}/.ssh"}),
                                        ("directory_tree", {"path": f"{stage.home}/.ssh"}), ("search_files", {"path": f"{stage.home}/.ssh", "pattern": "*"})]:
                    text, _ = words(peer, tool, arguments)
                    expect(stage.secret not in text and "id_test\n" not in text.replace(f"{stage.home}/.ssh/id_test", ""), f"{tool}: {text[:200]}")
            with table.check("it cannot read it through a link in the session directory"):
                os.symlink(f"{stage.home}/.ssh", f"{stage.session}/keys")
                text, _ = words(peer, "read_text_file", {"path": f"{stage.session}/keys/id_test"})
                expect(stage.secret not in text, text)
            with table.check("it reads what is not hidden"):
                text, failed = words(peer, "read_text_file", {"path": "/etc/passwd"})
                expect("root:" in text and not failed, text)
            with table.check("it writes in the session directory"):
                text, failed = words(peer, "write_file", {"path": f"{stage.session}/made", "content": "made"})
                expect(not failed and stage.read(f"{stage.session}/made") == "made", text)
                expect(os.stat(f"{stage.session}/made").st_uid == (suite.user if suite.user is not None else os.geteuid()), "it belongs to somebody else")
            for name, place in targets.items():
                if not able.get(name):
                    continue
                with table.check(f"it cannot write: {name}"):
                    text, failed = words(peer, "write_file", {"path": place.through, "content": "planted"})
                    touched = place.touched()
                    place.restore()
                    expect(not touched, f"the file was written; the answer: {text}")
                    if not place.own_inside:
                        expect(failed, f"nothing was written, but the answer is {text[:200]}")
                        # What a path below /proc means cannot be told beforehand: denied before the server sees it.
                        by = (BLOCKED, "DENIED") if place.through.startswith("/proc/") else (BLOCKED,)
                        expect(text.startswith(by), f"the answer does not begin with {' or '.join(by)}: {text[:300]}")
            with table.check("it cannot move a file out, or make a directory, or edit"):
                words(peer, "move_file", {"source": f"{stage.session}/made", "destination": f"{stage.home}/moved"})
                words(peer, "create_directory", {"path": f"{stage.home}/directory"})
                words(peer, "edit_file", {"path": f"{stage.home}/notes", "edits": [{"oldText": "notes", "newText": "edited"}]})
                expect(not os.path.exists(f"{stage.home}/moved") and not os.path.exists(f"{stage.home}/directory"), "something came into being")
                expect(stage.read(f"{stage.home}/notes") == "notes of the owner\n", "it was edited")
            protected(table, stage, peer)


def protected(table, stage, peer):
    """What is ours is out of reach wherever it lies."""
    own = {"the configuration": f"{stage.root}/mcp-servers.json", "the policy": f"{stage.policy}/policy.cedar", "the audit log": stage.audit,
           "an answer to an escalation": f"{stage.session}/escalations/response-1.json", "our state": f"{stage.root}/state/lazaret/planted"}
    for name, path in own.items():
        with table.check(f"it cannot write {name}"):
            before = stage.read(path)
            text, failed = words(peer, "write_file", {"path": path, "content": "planted"})
            after = stage.read(path)
            # The log itself grows, by what is told of this very call.
            expect(after.startswith(before) and after != "planted", f"it was written; the answer: {text}")
            expect(failed and text.startswith(("DENIED", BLOCKED)), text[:300])
    with table.check("it cannot read the policy or the configuration"):
        for path in [f"{stage.policy}/policy.cedar", f"{stage.root}/mcp-servers.json"]:
            text, failed = words(peer, "read_text_file", {"path": path})
            expect(failed, f"{path}: {text[:200]}")
    with table.check("it cannot replace the escalations directory"):
        words(peer, "move_file", {"source": f"{stage.session}/escalations", "destination": f"{stage.session}/moved"})
        expect(os.path.isdir(f"{stage.session}/escalations") and not os.path.exists(f"{stage.session}/moved"), "it was moved")


def fixture(suite, table):
    """Errors that are thrown and errors that are results, from a server that checks nothing itself."""
    with Stage(suite) as stage:
        server = marked(stage, suite.shelf.fixture("worker.py", name="exec"))
        with table.check("a server that runs commands, direct: reads the key, writes at home"):
            with stage.direct(server) as peer:
                peer.initialize()
                for tool in ["read", "read_or_throw"]:
                    expect(stage.secret in words(peer, tool, {"path": f"{stage.home}/.ssh/id_test"})[0], tool)
                for tool in ["write", "write_or_throw"]:
                    expect(not words(peer, tool, {"path": f"{stage.home}/planted"})[1], tool)
                    os.remove(f"{stage.home}/planted")
                expect(stage.secret in words(peer, "run", {"cmd": f"cat {stage.home}/.ssh/id_test"})[0], "run")
        if suite.direct_only:
            return
        with stage.proxy(servers=[server]) as peer:
            with table.check("a server that runs commands starts"):
                peer.initialize()
            for tool, how in [("read", "a result that says isError"), ("read_or_throw", "an error that is thrown")]:
                with table.check(f"{how} begins with {BLOCKED}: reading the key"):
                    expect(stage.secret not in refused(peer, tool, {"path": f"{stage.home}/.ssh/id_test"}), "it was read")
            for tool, how in [("write", "a result that says isError"), ("write_or_throw", "an error that is thrown")]:
                with table.check(f"{how} begins with {BLOCKED}: writing at home"):
                    refused(peer, tool, {"path": f"{stage.home}/planted"})
                    expect(not os.path.exists(f"{stage.home}/planted"), "it was written")
            with table.check("a command that is blocked begins with it too"):
                refused(peer, "run", {"cmd": f"cat {stage.home}/.ssh/id_test"})
            with table.check("what was blocked is named"):
                text = refused(peer, "read", {"path": f"{stage.home}/.ssh/id_test"})
                expect("id_test" in text or ".ssh" in text, text)
            with table.check("an error of the server's own does not begin with it"):
                text, failed = words(peer, "read", {"path": f"{stage.session}/missing"})
                expect(failed and not text.startswith(BLOCKED), text)
            with table.check("an error of the server's own does not begin with it, right after a blocked one"):
                refused(peer, "read", {"path": f"{stage.home}/.ssh/id_test"})
                text, failed = words(peer, "read", {"path": f"{stage.session}/missing"})
                expect(failed and not text.startswith(BLOCKED), text)
            with table.check("a success does not begin with it, though something was blocked on the way"):
                text, failed = words(peer, "run", {"cmd": f"cat {stage.home}/.ssh/id_test 2>/dev/null; echo went on"})
                expect(not failed and text.startswith("went on"), text)
            with table.check("it cannot see or end the host's processes"):
                text, _ = words(peer, "run", {"cmd": f"kill -9 {peer.process.pid} {os.getpid()} 2>&1; ls /proc | grep -c '^[0-9]'; cat /proc/{os.getpid()}/cmdline"})
                expect(peer.process.poll() is None and "check.py" not in text, text)
            with table.check("its working directory is the session directory"):
                expect(words(peer, "run", {"cmd": "pwd"})[0].strip() == stage.session, "it is not")
            with table.check("the audit log has what was blocked, and that the server was in a sandbox"):
                text = stage.read(stage.audit)
                expect(BLOCKED in text and '"sandboxed":true' in text.replace(" ", ""), text[-500:])
                expect('"sandboxed":false' not in text.replace(" ", ""), "an entry says it was not")
            with table.check("the secret is in no log of ours"):
                expect(stage.secret not in stage.read(stage.audit) + stage.session_log(), "it is")


def settings(suite, table):
    """What the configuration says about files."""
    if suite.direct_only:
        return
    cases = [
        ("sandbox false opts out", False, True, True, True),
        ("an empty object means the defaults", {}, False, True, False),
        ("a list of denyRead adds to the defaults", {"filesystem": {"denyRead": ["~/notes"]}}, False, False, False),
        ("replaceDefaults replaces them", {"filesystem": {"denyRead": ["~/notes"], "replaceDefaults": True}}, True, False, False),
        ("allowWrite adds a directory", {"filesystem": {"allowWrite": ["HOME"]}}, False, True, True),
    ]
    for name, sandbox, key, notes, home in cases:
        with Stage(suite) as stage, table.check(f"{name}"):
            if isinstance(sandbox, dict) and sandbox.get("filesystem", {}).get("allowWrite"):
                sandbox = {"filesystem": {"allowWrite": [stage.directory(f"{stage.home}/open")]}}
                target = f"{stage.home}/open/written"
            else:
                target = f"{stage.home}/written"
            server = marked(stage, suite.shelf.fixture("worker.py", name="exec").with_(sandbox=sandbox))
            with stage.proxy(servers=[server]) as peer:
                peer.initialize()
                read = stage.secret in words(peer, "read", {"path": f"{stage.home}/.ssh/id_test"})[0]
                expect(read == key, f"the key is {'' if read else 'not '}read")
                read = "owner" in words(peer, "read", {"path": f"{stage.home}/notes"})[0]
                expect(read == notes, f"the notes are {'' if read else 'not '}read")
                text, _ = words(peer, "write", {"path": target})
                expect(os.path.exists(target) == home, f"{target} is {'' if os.path.exists(target) else 'not '}written: {text}")
                expect(not words(peer, "write", {"path": f"{stage.session}/w"})[1], "the session directory is not writable")
    with Stage(suite) as stage, table.check("relative paths are against the session directory, and denyWrite wins inside of it"):
        stage.directory(f"{stage.session}/.git")
        stage.directory(f"{stage.session}/shut")
        sandbox = {"filesystem": {"allowWrite": [".git"], "denyWrite": ["shut"]}}
        with stage.proxy(servers=[marked(stage, suite.shelf.fixture("worker.py", name="exec").with_(sandbox=sandbox))]) as peer:
            peer.initialize()
            expect(not words(peer, "write", {"path": ".git/x"})[1], ".git is not writable")
            text, failed = words(peer, "write", {"path": "shut/x"})
            expect(failed and not os.path.exists(f"{stage.session}/shut/x"), text)


def environment(suite, table):
    if suite.direct_only:
        return
    secret = {"API_TOKEN": "sk-parents-secret"}
    for name, more, there in [("a server does not get the parent's environment", {}, False), ("inheritEnv gives it", {"inheritEnv": True}, True)]:
        with Stage(suite) as stage, table.check(name):
            server = marked(stage, suite.shelf.fixture("worker.py", name="exec").with_(**more))
            server.env["OWN"] = "given"
            with stage.proxy(servers=[server], env=secret) as peer:
                peer.initialize()
                text, _ = words(peer, "environment", {})
                expect("OWN=given" in text, text)
                expect(("sk-parents-secret" in text) == there, f"API_TOKEN is {'there' if 'sk-parents' in text else 'not there'}")
                expect("\nPATH=" in "\n" + text and "\nHOME=" in "\n" + text, text)


def network(suite, table):
    """Two servers with different networks cannot use each other's."""
    if suite.direct_only:
        return
    with Web() as web, Stage(suite) as stage:
        offline = marked(stage, suite.shelf.fixture("worker.py", "offline", name="offline"))
        local = marked(stage, suite.shelf.fixture("worker.py", "local", name="local").with_(sandbox={"network": {"allowedDomains": ["localhost"]}}))
        git = marked(stage, suite.shelf.fixture("worker.py", "git", name="git").with_(
            sandbox={"network": {"allowedDomains": ["github.com", "*.github.com"], "deniedDomains": ["gist.github.com"]}}))
        here = {"host": "localhost", "port": web.port}
        with stage.direct(offline) as peer:
            with table.check("direct: the host's server is reached"):
                peer.initialize()
                text, failed = words(peer, "offline_connect", here | {"word": "page-direct"})
                expect("A page" in text and not failed and "/page-direct" in web.asked, text)
        with stage.proxy(servers=[offline, local, git]) as peer:
            with table.check("three servers with different networks start"):
                peer.initialize()
            with table.check("the server that has the host listed reaches it"):
                text, failed = words(peer, "local_connect", here | {"word": "page-local"})
                expect("A page" in text and "/page-local" in web.asked, text)
            for name in ["offline", "git"]:
                with table.check(f"the server {name} does not"):
                    text, failed = words(peer, f"{name}_connect", here | {"word": f"page-{name}"})
                    expect(failed and f"/page-{name}" not in web.asked, text)
                    text, _ = words(peer, f"{name}_connect", {"host": "127.0.0.1", "port": web.port, "word": f"page-{name}-ip"})
                    expect(f"/page-{name}-ip" not in web.asked, text)
            with table.check("the domain of the git server is a name there, and none to the others"):
                far = {"host": "api.github.com", "port": 443}
                reach = {name: words(peer, f"{name}_connect", far)[0] for name in ("git", "local", "offline")}
                expect("no name" not in reach["git"], reach)
                expect("no name" in reach["local"] and "no name" in reach["offline"], reach)
            with table.check("a denied domain is none to the git server either"):
                text, _ = words(peer, "git_connect", {"host": "gist.github.com", "port": 443})
                expect("no name" in text, text)
            with table.check("the doors of one server are not there for another"):
                text, _ = words(peer, "local_environment", {})
                doors = [line.rpartition(":")[2].strip("/") for line in text.splitlines() if line.lower().startswith("http_proxy=")]
                expect(doors, "no proxy variables: nothing to try")
                text, failed = words(peer, "offline_connect", {"host": "127.0.0.1", "port": int(doors[0]), "word": "door"})
                expect(failed and "no connection" in text, text)
            with table.check("refusals are in the audit log, with the host"):
                text = stage.read(stage.audit)
                expect("api.github.com" in text, "the refused host is not in it")
