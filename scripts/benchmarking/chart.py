"""Draws `chart.svg`: for each measure the cost of everybody as a multiple of a base, on a logarithmic axis. To the left
is better. Colours follow the reader's light or dark setting."""

import math
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT = 860, 150, 90
ROW, GAP, HEAD = 20, 34, 64
BAR = 13

# Measures that say the same as another one are left to the tables.
SHOWN = ["startup", "idle", "alive-50", "at-once-8", "open-close", "make", "download", "keep-alive-16", "new-8"]

STYLE = """
  svg { --text: #1f2328; --soft: #59636e; --grid: #d1d9e0; --ours: #1a7f6b; --other: #8c959f; --paper: #ffffff; }
  @media (prefers-color-scheme: dark) {
    svg { --text: #f0f6fc; --soft: #9198a1; --grid: #3d444d; --ours: #3fb8a0; --other: #6e7681; --paper: #0d1117; }
  }
  text { font: 12px system-ui, sans-serif; fill: var(--text); }
  .title { font-size: 15px; font-weight: 600; } .panel { font-weight: 600; paint-order: stroke; stroke: var(--paper); stroke-width: 4px; } .soft { fill: var(--soft); }
  .name { text-anchor: end; } .tick { text-anchor: middle; font-size: 10px; fill: var(--soft); }
  .grid { stroke: var(--grid); stroke-width: 1; } .one { stroke: var(--soft); stroke-width: 1.5; }
  .ours { fill: var(--ours); } .other { fill: var(--other); } .paper { fill: var(--paper); }
"""


def draw(results, measures):
    panels = [panel for panel in (collect(measure) for measure in measures if measure.key in SHOWN) if panel]
    costs = [cost for _, _, bars in panels for _, cost, _ in bars] or [1.0]
    low = min(-1, math.floor(math.log10(min(costs))))
    high = max(1, math.ceil(math.log10(max(costs))))
    scale = (WIDTH - LEFT - RIGHT) / (high - low)
    x = lambda cost: LEFT + (math.log10(cost) - low) * scale
    height = HEAD + sum(GAP + ROW * len(bars) for _, _, bars in panels) + 40
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
             f"<title>{escape(headline(results))}</title>", f"<style>{STYLE}</style>",
             f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
             f'<text class="title" x="16" y="26">{escape(headline(results))}</text>',
             '<text class="soft" x="16" y="46">Cost as a multiple of the base of each panel, logarithmic; further left is better. '
             "Medians of one interleaved run.</text>"]
    for power in range(low, high + 1):
        parts.append(f'<line class="{"one" if power == 0 else "grid"}" x1="{x(10.0**power):.1f}" x2="{x(10.0**power):.1f}" y1="{HEAD}" y2="{height - 30}"/>')
        parts.append(f'<text class="tick" x="{x(10.0**power):.1f}" y="{height - 14}">{label(10.0**power)}</text>')
    y = HEAD
    for title, base, bars in panels:
        y += GAP
        parts.append(f'<text class="panel" x="16" y="{y - 8}">{escape(title)} <tspan class="soft">(1 = {escape(base)})</tspan></text>')
        for name, cost, value in bars:
            begin, end = sorted([x(1.0), x(cost)])
            parts.append(f'<text class="name" x="{LEFT - 8}" y="{y + 11}">{escape(name)}</text>')
            parts.append(f'<rect class="{"ours" if name.startswith("lazaret") else "other"}" x="{begin:.1f}" y="{y + 1}" '
                         f'width="{max(end - begin, 2):.1f}" height="{BAR}"/>')
            parts.append(f'<text x="{end + 6:.1f}" y="{y + 12}">{label(cost)} <tspan class="soft">{escape(value)}</tspan></text>')
            y += ROW
    return "\n".join([*parts, "</svg>", ""])


def headline(results):
    machine = results["machine"]
    return f"Lazaret and its peers, {machine['date'][:10]}, as {machine['user']['kind']}"


def collect(measure):
    """Title, base and bars (name, cost, value) of one measure; None when there is nothing to compare with."""
    base = measure.base if measure.median(measure.base) else "direct" if measure.median("direct") else None
    if base is None:
        return None
    bars = [(name, measure.cost(name, base), f"{short(measure.median(name))} {measure.unit}") for name in measure.samples]
    bars = sorted((bar for bar in bars if bar[1]), key=lambda bar: bar[1])
    return (measure.title.replace("`", ""), base, bars) if bars else None


def short(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def label(cost):
    return f"{cost:.0f}×" if cost >= 10 else f"{cost:.2g}×"
