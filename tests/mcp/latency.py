#!/usr/bin/env python3
"""How much a call costs more through the proxy, how many go through in a second, and how much memory it takes.
Measured against the same server direct, in turns. Not a test: nothing passes or fails here.

    tests/mcp/latency.py --lazaret FILE [--calls N] [--rounds N] [--unsandboxed]
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
AIMS = {"addedMicroseconds": 200, "callsPerSecond": 5000, "megabytesWithFiveServers": 40}
WINDOW = 64


class Line:
    """A client that spends as little time as Python can."""

    def __init__(self, command, directory, env, log):
        self.process = subprocess.Popen(command, cwd=directory, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0)
        self.into, self.out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.number, self.rest = 0, b""

    def write(self, data):
        view = memoryview(data)
        while view:
            view = view[os.write(self.into, view):]

    def line(self):
        while b"\n" not in self.rest:
            chunk = os.read(self.out, 65536)
            if not chunk:
                raise SystemExit("the server went away")
            self.rest += chunk
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def answer(self):
        """The next line that answers something."""
        while True:
            line = self.line()
            if b'"id"' in line and b'"method"' not in line:
                return line

    def hello(self, tools):
        """Introduces itself, and waits until all tools are there."""
        self.write(json.dumps({"jsonrpc": "2.0", "id": "h", "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "latency", "version": "1"}}}).encode() + b"\n")
        self.answer()
        self.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        for _ in range(200):
            self.write(b'{"jsonrpc":"2.0","id":"t","method":"tools/list"}\n')
            listed = [tool["name"] for tool in json.loads(self.answer())["result"]["tools"]]
            if len(listed) >= tools:
                return listed
            time.sleep(0.05)
        raise SystemExit(f"only {listed} are listed")

    def request(self, tool):
        # Never the same call twice: identical calls in a row are stopped.
        self.number += 1
        return b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":{"n":%d}}}\n' % (self.number, tool.encode(), self.number)

    def one(self, tool):
        request = self.request(tool)
        began = time.perf_counter_ns()
        self.write(request)
        line = self.answer()
        took = time.perf_counter_ns() - began
        if b'"done"' not in line:
            raise SystemExit(f"a call failed: {line[:300]!r}")
        return took / 1000

    def many(self, tool, count):
        """So many calls, a window of them under way at any time: calls per second."""
        sent = came = 0
        began = time.perf_counter()
        while came < count:
            if (room := min(WINDOW - (sent - came), count - sent)) > WINDOW // 2 or (sent == came and room):
                self.write(b"".join(self.request(tool) for _ in range(room)))
                sent += room
            chunk = os.read(self.out, 1 << 20)
            if not chunk:
                raise SystemExit("the server went away")
            came += chunk.count(b"\n")
        return count / (time.perf_counter() - began)

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def family(pid):
    found, waiting = [], [pid]
    parents = {}
    for other in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{other}/stat") as file:
                parents.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(other))
        except OSError:
            pass
    while waiting:
        found.append(waiting.pop())
        waiting += parents.get(found[-1], [])
    return found


def memory(pid, server):
    """What the proxy and its processes take (shared pages divided among their users), without the servers: MB."""
    total, processes = 0, 0
    for one in family(pid):
        try:
            if os.path.basename(os.readlink(f"/proc/{one}/exe")) == os.path.basename(server):
                continue
            with open(f"/proc/{one}/smaps_rollup") as file:
                total += next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
            processes += 1
        except (OSError, StopIteration):
            pass
    return round(total / 1024, 1), processes


def spread(values):
    ordered = sorted(values)
    return {"median": round(statistics.median(ordered), 1), "p95": round(ordered[int(len(ordered) * 0.95)], 1), "min": round(ordered[0], 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lazaret", required=True)
    parser.add_argument("--calls", type=int, default=200, help="one after the other, per round")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--pipelined", type=int, default=20000, help="at once, per round; fewer rounds")
    parser.add_argument("--unsandboxed", action="store_true", help="servers without a sandbox, to see what the proxy alone costs")
    given = parser.parse_args()
    # Not below /tmp or /var/tmp, of which a sandbox has its own.
    base = tempfile.mkdtemp(prefix="lazaret-latency-", dir="/srv" if os.geteuid() == 0 else os.path.expanduser("~"))
    try:
        results = measure(given, base)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(json.dumps(results, indent=2))
    for name, aim in AIMS.items():
        print(f"{name}: {results[name]} (aim: {'at most' if name != 'callsPerSecond' else 'at least'} {aim})", file=sys.stderr)


def measure(given, base):
    server = f"{base}/quick"
    subprocess.run(["gcc", "-O2", "-o", server, f"{HERE}/fixtures/quick.c"], check=True)
    for name in ["home", "session", "policy", "state", "config"]:
        os.makedirs(f"{base}/{name}", mode=0o700)
    with open(f"{base}/policy/all.cedar", "w") as file:
        file.write("permit(principal, action, resource);\n")
    env = {"PATH": os.environ["PATH"], "HOME": f"{base}/home", "XDG_STATE_HOME": f"{base}/state", "XDG_CONFIG_HOME": f"{base}/config"}
    log = open(f"{base}/log", "ab")

    def proxy(count):
        entry = {"command": server, "args": []} | ({"sandbox": False} if given.unsandboxed else {})
        with open(f"{base}/servers.json", "w") as file:
            json.dump({"mcpServers": {f"quick{number}": entry for number in range(count)}}, file)
        line = Line([os.path.abspath(given.lazaret), "mcp", "serve", "--config", f"{base}/servers.json", "--session", f"{base}/session", "--policy",
                     f"{base}/policy", "--audit", f"{base}/audit.jsonl"], base, env, log)
        return line, line.hello(count)[0]

    began = time.perf_counter()
    through, tool = proxy(1)
    started = time.perf_counter() - began
    direct = Line([server], base, env, log)
    direct.hello(1)
    ways = {"direct": (direct, "quick"), "proxied": (through, tool)}
    single, rate = {way: [] for way in ways}, {way: [] for way in ways}
    for _ in range(50):
        for line, name in ways.values():
            line.one(name)
    for _ in range(given.rounds):
        for way, (line, name) in ways.items():
            single[way] += [line.one(name) for _ in range(given.calls)]
    for _ in range(max(1, given.rounds // 3)):
        for way, (line, name) in ways.items():
            rate[way].append(line.many(name, given.pipelined))
    one_server = memory(through.process.pid, server)
    for line, _ in ways.values():
        line.close()
    five, names = proxy(5)
    five.one(names)
    megabytes, processes = memory(five.process.pid, server)
    five.close()
    log.close()
    medians = {way: statistics.median(values) for way, values in single.items()}
    return {
        "addedMicroseconds": round(medians["proxied"] - medians["direct"], 1),
        "callsPerSecond": round(statistics.median(rate["proxied"])),
        "megabytesWithFiveServers": megabytes, "processesWithFiveServers": processes,
        "megabytesWithOneServer": one_server[0],
        "microseconds": {way: spread(values) for way, values in single.items()},
        "directCallsPerSecond": round(statistics.median(rate["direct"])),
        "secondsToFirstTools": round(started, 3), "sandboxed": not given.unsandboxed, "calls": len(single["direct"]),
        "loadAverage": round(os.getloadavg()[0], 1), "cores": os.cpu_count(),
    }


if __name__ == "__main__":
    main()
