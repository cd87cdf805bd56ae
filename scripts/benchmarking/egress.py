"""The way out, for those who let a command out by name: a web server outside on loopback, the client inside."""

import contextlib
import json
import os
import re
import socket
import subprocess
import time
from functools import partial

from .install import Missing
from .peers import EMPTY, Contestant, prefix, shell_argument
from .processes import Failed, end, last_line
from .rounds import Measure, take_turns

NAME = "bench.test"
TOOLS = ["nginx", "curl", "wrk", "ab"]

NGINX = """
worker_processes 1; daemon off; pid {dir}/pid; error_log {dir}/error.log; {user}
events {{ worker_connections 4096; }}
http {{ access_log off; sendfile on; keepalive_requests 1000000000; server {{ listen 127.0.0.1:{port}; root {dir}/root; }}
  client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c; uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e; }}
"""

# wrk knows no proxy: it talks to the sandbox's own with whole addresses.
PROXY_LUA = """
local credentials = (os.getenv('HTTP_PROXY') or ''):match('//(.-)@')
local letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
local function base64(text)
  local coded, pad = '', (3 - #text % 3) % 3
  text = text .. string.rep('\\0', pad)
  for i = 1, #text, 3 do
    local n = text:byte(i) * 65536 + text:byte(i + 1) * 256 + text:byte(i + 2)
    for k = 3, 0, -1 do local c = math.floor(n / 64 ^ k) % 64; coded = coded .. letters:sub(c + 1, c + 1) end
  end
  return coded:sub(1, #coded - pad) .. string.rep('=', pad)
end
wrk.path = '{url}/small'
wrk.headers['Host'] = '{host}'
if credentials then
  credentials = credentials:gsub('%%(%x%x)', function(hex) return string.char(tonumber(hex, 16)) end)
  wrk.headers['Proxy-Authorization'] = 'Basic ' .. base64(credentials)
end
"""

# The time that connect() takes, in microseconds; the median of many.
CONNECTS = """
import socket, sys, time
host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
address = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)[0][4]
times = []
for _ in range(count):
    s = socket.socket()
    begin = time.perf_counter()
    s.connect(address)
    times.append(time.perf_counter() - begin)
    s.close()
times.sort()
print(times[len(times) // 2] * 1e6)
"""


class Way:
    """A contestant with a way out, the address of the server as seen from inside, and whether a proxy is in between."""

    def __init__(self, contestant, host, port, by_proxy):
        self.contestant, self.name, self.by_proxy = contestant, contestant.name, by_proxy
        self.host, self.url = host, f"http://{host}:{port}"


def egress(run):
    try:
        for tool in TOOLS:
            run.shelf.program(tool)
    except Missing as error:
        raise Failed(str(error)) from None
    measures = [Measure("egress", key, title, unit, better, base="direct") for key, title, unit, better in [
        ("download", "One big download", "MiB/s", "higher"),
        ("keep-alive-1", "Requests per second, 1 connection kept", "1/s", "higher"),
        ("keep-alive-16", "Requests per second, 16 connections kept", "1/s", "higher"),
        ("new-1", "Requests per second, a new connection each, 1 at a time", "1/s", "higher"),
        ("new-8", "Requests per second, a new connection each, 8 at a time", "1/s", "higher")]]
    samples = [partial(download, run), partial(keep_alive, run, 1), partial(keep_alive, run, 16),
               partial(new_connections, run, 1), partial(new_connections, run, 8)]
    connect = Measure("egress", "connect", "Time of one connect(), where no proxy is in between", "µs", base="direct")
    with server(run) as port:
        found = ways(run, port)
        run.egress_ways = [way.contestant for way in found]
        take_turns(run, "egress", found, [([measure], sample) for measure, sample in zip(measures, samples, strict=True)],
                   run.rounds(5, 1))
        take_turns(run, "connect", [way for way in found if not way.by_proxy], [([connect], partial(connect_time, run, port))],
                   run.rounds(5, 2))
    return [*measures, connect]


def ways(run, port):
    """Only those who filter by name take part; `direct` is the base."""
    place, found = run.place, []
    settings = {**EMPTY, "network": {"allowedDomains": [f"127.0.0.1:{port}"], "deniedDomains": []}}
    file = place.write("egress.json", settings)
    for contestant in run.contestants:
        program = contestant.argv(["true"])[0]
        version, remark = contestant.version, contestant.remark
        match contestant.name:
            case "direct":
                found.append(Way(contestant, "127.0.0.1", port, by_proxy=False))
            case "lazaret":
                flags = ["--allow", f"{NAME}:{port}", "--resolve", f"{NAME}=127.0.0.1", "--allow-address", "127.0.0.1",
                         "--env", "no_proxy=*", "--env", "NO_PROXY=*"]
                found.append(Way(Contestant("lazaret", prefix(program, "run", *flags, "--"), version, remark, place), NAME, port, False))
            case "lazaret srt":
                found.append(Way(Contestant("lazaret srt", shell_argument(program, "srt", "-s", file, "-c"), version,
                                            json.dumps(settings), place), "127.0.0.1", port, True))
            case "srt":
                found.append(Way(Contestant("srt", shell_argument(program, contestant.argv(["true"])[1], "-s", file, "-c"), version,
                                            json.dumps(settings), place), "127.0.0.1", port, True))
            case "sandlock":
                flags = ["-r", "/", "-w", place.work, "-w", "/dev/null", "--net-allow", f"127.0.0.1:{port}"]
                found.append(Way(Contestant("sandlock", prefix(program, "run", *flags, "--"), version, remark, place), "127.0.0.1", port, False))
    return found


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def server(run):
    directory, port = f"{run.place.directory}/server", free_port()
    os.makedirs(f"{directory}/root")
    with open(f"{directory}/root/big", "wb") as big:
        big.truncate(run.megabytes << 20)
    with open(f"{directory}/root/small", "w") as small:
        small.write("x" * 128)
    with open(f"{directory}/nginx.conf", "w") as conf:
        conf.write(NGINX.format(dir=directory, port=port, user="user root;" if os.geteuid() == 0 else ""))
    for name, text in [("connects.py", CONNECTS),
                       ("proxy.lua", PROXY_LUA.replace("{url}", f"http://127.0.0.1:{port}").replace("{host}", f"127.0.0.1:{port}"))]:
        with open(f"{run.place.work}/{name}", "w") as file:
            file.write(text)
        os.chmod(f"{run.place.work}/{name}", 0o644)
    command = [run.shelf.program("nginx"), "-p", directory, "-c", f"{directory}/nginx.conf"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        deadline = time.monotonic() + 10
        while True:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"nginx does not serve: {last_line(process.stderr.read() if process.poll() is not None else '')}")
            time.sleep(0.02)
        yield port
    finally:
        end([process.pid], patience=0)
        process.stderr.close()
        process.wait()


def shell(run, way, command):
    return run.launcher.output(way.contestant.argv(["/bin/sh", "-c", command]))


def number(pattern, text):
    found = re.search(pattern, text)
    if not found or re.search(r"Non-2xx", text):
        raise Failed(f"unexpected output: {last_line(text)}")
    return float(found.group(1))


def download(run, way):
    proxy = '--noproxy ""' if way.by_proxy else '--noproxy "*"'
    text = shell(run, way, f"curl -fsS {proxy} -o /dev/null -w 'speed=%{{speed_download}}' {way.url}/big")
    return [number(r"speed=([\d.]+)", text) / 2**20]


def keep_alive(run, connections, way):
    tool = f"wrk -t1 -c{connections} -d{run.seconds(2, 1)}s"
    command = either(way, f"{tool} -s {run.place.work}/proxy.lua http://$h/", f"{tool} {way.url}/small")
    return [number(r"Requests/sec:\s+([\d.]+)", shell(run, way, command))]


def new_connections(run, at_once, way):
    # srt needs seconds for a few hundred.
    tool = f"ab -q -n {200 if way.name == 'srt' else run.requests} -c {at_once}"
    command = either(way, f'{tool} -X $h ${{c:+-P "$c"}} {way.url}/small', f"{tool} {way.url}/small")
    return [number(r"Requests per second:\s+([\d.]+)", shell(run, way, command))]


def either(way, by_proxy, plainly):
    """A shell command: the first where there is a proxy, with its address in $h and its credentials in $c."""
    if not way.by_proxy:
        return plainly
    return (f'if [ -n "$HTTP_PROXY" ]; then p=${{HTTP_PROXY#http://}}; p=${{p%/}}; h=${{p##*@}}; c=${{p%@*}}; [ "$c" = "$p" ] && c=; '
            f"{by_proxy}; else {plainly}; fi")


def connect_time(run, port, way):
    text = shell(run, way, f"/usr/bin/python3 {run.place.work}/connects.py {way.host} {port} 500")
    return [number(r"([\d.]+)", text)]
