#!/usr/bin/env python3
"""Checks what scripts/benchmark writes and leaves, never how fast anything is.

    tests/benchmark/check.py --lazaret FILE
"""

import argparse
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCHMARK = os.path.join(ROOT, "scripts/benchmark")
# Two peers of our own: one that runs everywhere, one that is nowhere.
PEERS = ["--peer", "plain=env", "--peer", "absent=/nonexistent/sandbox --flag"]
PR_SET_CHILD_SUBREAPER = 36
SVG = "{http://www.w3.org/2000/svg}"


def benchmark(lazaret, out, temporary, *more):
    return [sys.executable, BENCHMARK, "--quick", "--peers-from-path", "--rounds", "3", "--lazaret", lazaret, "--out", out, *PEERS,
            *more], {**os.environ, "TMPDIR": temporary}


def run(lazaret, out, temporary, *more):
    command, environment = benchmark(lazaret, out, temporary, *more)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def its_files_are_well_formed_and_complete(lazaret, directory, temporary):
    done = run(lazaret, directory, temporary, "--only", "startup", "--seed", "7")
    assert done.returncode == 0, done.stderr
    assert "seed 7" in done.stderr, done.stderr
    with open(f"{directory}/results.json") as file:
        results = json.load(file)
    machine = results["machine"]
    for key in ["date", "kernel", "cpu", "cores", "memoryBytes", "governor", "loadAverageBefore", "user"]:
        assert key in machine, f"{key} is missing in machine"
    assert machine["cores"] > 0 and machine["memoryBytes"] > 0 and len(machine["loadAverageBefore"]) == 3, machine
    assert results["seed"] == 7 and results["quick"] and results["groups"] == ["startup"]

    taking_part = {entry["name"]: entry for entry in results["contestants"]}
    assert {"direct", "lazaret", "plain"} <= set(taking_part), taking_part.keys()
    for entry in taking_part.values():
        assert entry["command"] and temporary not in entry["command"], entry
    assert "user" in taking_part["lazaret"]["isolation"]["namespaces"], taking_part["lazaret"]
    assert taking_part["direct"]["isolation"]["namespaces"] == [], taking_part["direct"]

    assert "absent" not in taking_part
    assert "/nonexistent/sandbox" in results["notMeasured"]["absent"], results["notMeasured"]
    for name, reason in results["notMeasured"].items():
        assert reason.strip() and name not in taking_part, (name, reason)
    known = ["lazaret", "bubblewrap", "srt", "firejail", "runc", "hakoniwa"]
    lost = [name for name in known if name not in taking_part and name not in results["notMeasured"]]
    assert not lost, f"neither measured nor named: {lost}"

    (measure,) = results["measures"]
    assert measure["key"] == "startup" and measure["unit"] == "ms" and measure["better"] == "lower"
    assert set(measure["entries"]) | set(measure["notMeasured"]) == set(taking_part)
    for name, entry in measure["entries"].items():
        assert len(entry["samples"]) == 3, (name, entry)
        assert 0 < entry["min"] <= entry["p25"] <= entry["median"] <= entry["p75"] <= entry["max"], (name, entry)
        assert entry["median"] == sorted(entry["samples"])[1], (name, entry)
        if base := measure["entries"].get("bubblewrap"):
            assert abs(entry["ratioToBubblewrap"] - entry["median"] / base["median"]) < 1e-9, (name, entry)

    with open(f"{directory}/results.md") as file:
        text = file.read()
    for name in taking_part:
        assert re.search(rf"^\| {re.escape(name)} \| [\d.]+ \|", text, re.M), f"{name} has no row of figures"
    assert re.search(r"^\| absent \| everything \| .*nonexistent", text, re.M), "absent is not named in results.md"
    header = None
    for line in text.splitlines():
        header = (header or line.count("|")) if line.startswith("|") else None
        assert header is None or line.replace("\\|", "").count("|") == header, f"a row does not fit its table: {line}"

    svg = xml.etree.ElementTree.parse(f"{directory}/chart.svg").getroot()
    assert svg.tag == f"{SVG}svg" and svg.find(f"{SVG}title") is not None
    assert "prefers-color-scheme: dark" in svg.find(f"{SVG}style").text
    labels = [element.text for element in svg.iter(f"{SVG}text") if element.get("class") == "name"]
    assert sorted(labels) == sorted(measure["entries"]), labels
    for bar in svg.iter(f"{SVG}rect"):
        assert float(bar.get("width")) > 0 and float(bar.get("x", 0)) >= 0, bar.attrib


def it_fails_when_lazaret_itself_is_not_measured(_lazaret, directory, temporary):
    # Something that runs, but is no sandbox.
    done = run("/bin/false", directory, temporary, "--only", "startup")
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert "lazaret itself was not measured" in done.stderr, done.stderr
    with open(f"{directory}/results.json") as file:
        results = json.load(file)
    assert "exit code 1" in results["notMeasured"]["lazaret"], results["notMeasured"]
    assert "plain" in results["measures"][0]["entries"], "one who fails takes the others along"


def it_ends_what_it_started_when_interrupted(lazaret, directory, temporary):
    command, environment = benchmark(lazaret, directory, temporary, "--only", "memory", "--rounds", "1000")
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while "sleep" not in below(process.pid):
            assert process.poll() is None and time.monotonic() < deadline, "no sandbox was started"
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, (process.returncode, said)
    assert below(os.getpid()) == [], f"still running: {below(os.getpid())}"
    assert not os.path.exists(f"{directory}/results.json")


def below(pid):
    """Names of all processes below this one. Orphans of the benchmark are ours: we adopt them."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/children") as file:
                children = file.read().split()
            for child in children:
                with open(f"/proc/{child}/comm") as file:
                    found.append(file.read().strip())
                found += below(child)
        except OSError:
            continue
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lazaret", required=True)
    lazaret = os.path.abspath(parser.parse_args().lazaret)
    # Whoever starts us in the background has us ignore it, and the benchmark with us.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for check in [its_files_are_well_formed_and_complete, it_fails_when_lazaret_itself_is_not_measured,
                  it_ends_what_it_started_when_interrupted]:
        with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as temporary:
            os.chmod(temporary, 0o755)
            check(lazaret, directory, temporary)
            left = os.listdir(temporary)
            assert left == [], f"{check.__name__}: left behind: {left}"
        print(f"ok: {check.__name__.replace('_', ' ')}")


if __name__ == "__main__":
    main()
