"""Writes what was measured: `results.json` with every sample, `results.md` with tables."""

import json

from . import chart


def write(directory, results, measures):
    with open(f"{directory}/results.json", "w") as file:
        json.dump({**results, "measures": [measure.as_json() for measure in measures]}, file, indent=1)
        file.write("\n")
    with open(f"{directory}/results.md", "w") as file:
        file.write(markdown(results, measures))
    with open(f"{directory}/chart.svg", "w") as file:
        file.write(chart.draw(results, measures))


def markdown(results, measures):
    lines = ["# Benchmark results", "", *about(results), "", "![Costs relative to the base of each panel](chart.svg)", "",
             "All figures are medians of interleaved samples; the middle half of the samples lies between p25 and p75. A ratio "
             "is this median divided by that of bubblewrap or srt in the same run.", ""]
    lines += in_short(measures)
    for measure in measures:
        lines += table(measure)
    lines += not_measured(results, measures)
    lines += configurations(results)
    return "\n".join(lines).rstrip() + "\n"


def about(results):
    machine = results["machine"]
    load = ", ".join(f"{value:.2f}" for value in machine["loadAverageBefore"])
    return [
        "| | |", "|---|---|",
        f"| date | {machine['date']} |",
        f"| system | {machine['kernel']}, {machine['distribution'] or 'unknown distribution'} |",
        f"| processor | {machine['cpu']}, {machine['cores']} cores, governor {machine['governor'] or 'not readable'} |",
        f"| memory | {machine['memoryBytes'] / 2**30:.1f} GiB |",
        f"| load before | {load} |",
        f"| measured as | {machine['user']['kind']} |",
        f"| run | seed {results['seed']}{', quick' if results['quick'] else ''}; source {results['commit'] or 'unknown'} |",
    ]


def table(measure):
    better = "less is better" if measure.better == "lower" else "more is better"
    lines = [f"## {measure.title}", "", f"{measure.unit}; {better}.", "",
             "| | median | min | p25 – p75 | samples | / bubblewrap | / srt |", "|---|---:|---:|---:|---:|---:|---:|"]
    entries = measure.as_json()["entries"]
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["median"], reverse=measure.better == "higher"):
        lines.append(f"| {name} | {figure(entry['median'])} | {figure(entry['min'])} | {figure(entry['p25'])} – {figure(entry['p75'])} | "
                     f"{len(entry['samples'])} | {times(entry['ratioToBubblewrap'])} | {times(entry['ratioToSrt'])} |")
    for name in measure.not_measured:
        lines.append(f"| {name} | not measured | | | | | |")
    return [*lines, ""]


def in_short(measures):
    """Lazaret beside the two that most people have."""
    lines = ["## In short", "", "| | lazaret | bubblewrap | srt | bubblewrap's cost / lazaret's | srt's cost / lazaret's |",
             "|---|---:|---:|---:|---:|---:|"]
    for measure in measures:
        if measure.median("lazaret") is None:
            continue
        medians = [figure(measure.median(name)) for name in ["lazaret", "bubblewrap", "srt"]]
        costs = [times(measure.cost(name, "lazaret")) for name in ["bubblewrap", "srt"]]
        lines.append(f"| {measure.title}, {measure.unit} | {' | '.join([*medians, *costs])} |")
    return [*lines, ""]


def rows_not_measured(results, measures):
    """Who, what, why."""
    rows = [(name, "everything", reason) for name, reason in results["notMeasured"].items()]
    rows += [(group, "the whole group", reason) for group, reason in results["groupsNotMeasured"].items()]
    return rows + [(name, measure.title, reason) for measure in measures for name, reason in measure.not_measured.items()]


def not_measured(results, measures):
    rows = rows_not_measured(results, measures)
    if not rows:
        return []
    return ["## Not measured", "", "| who | what | why |", "|---|---|---|",
            *(f"| {name} | {what} | {cell(reason)} |" for name, what, reason in rows), ""]


def configurations(results):
    lines = ["## Who took part, and how", "",
             "The command line for `true`. WORK is the working directory, SIDE holds settings files and bundles.", "",
             "| | version | command line | remark |", "|---|---|---|---|"]
    for entry in results["contestants"]:
        lines.append(f"| {entry['name']} | {cell(entry['version'])} | `{cell(entry['command'])}` | {cell(entry['remark'])} |")
    for entry in results["egressContestants"]:
        lines.append(f"| {entry['name']}, egress | {cell(entry['version'])} | `{cell(entry['command'])}` | {cell(entry['remark'])} |")
    lines += ["", "What a command finds around itself, asked from inside:", "",
              "| | new namespaces | system call filter | no new privileges | capabilities | rest read-only | entries of home seen |",
              "|---|---|---|---|---|---|---|"]
    for entry in results["contestants"]:
        seen = entry["isolation"]
        home = seen["homeEntries"]
        lines.append(f"| {entry['name']} | {', '.join(seen['namespaces']) or 'none'} | {yes(seen['seccompFilter'])} | "
                     f"{yes(seen['noNewPrivileges'])} | {seen['capabilities']} | {yes(seen['restReadOnly'])} | "
                     f"{home['inside']} of {home['outside']} |")
    return lines


def summary(results, measures):
    """What is printed at the end."""
    lines = []
    for measure in measures:
        lines.append(f"{measure.title}, {measure.unit}")
        entries = measure.as_json()["entries"]
        for name, entry in sorted(entries.items(), key=lambda item: item[1]["median"], reverse=measure.better == "higher"):
            lines.append(f"  {name:18} {figure(entry['median']):>10}   x bubblewrap {times(entry['ratioToBubblewrap']):>7}"
                         f"   x srt {times(entry['ratioToSrt']):>7}")
    lines += [f"not measured: {name}: {what}: {why}" for name, what, why in rows_not_measured(results, measures)]
    return "\n".join(lines)


def figure(value):
    if value is None:
        return "–"
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def times(ratio):
    return "–" if ratio is None else figure(ratio) if ratio >= 0.01 else f"{ratio:.4f}"


def cell(text):
    return " ".join(str(text).replace("|", "\\|").replace("`", "'").split())


def yes(value):
    return "yes" if value else "no"
