"""Colours and type of plots, by variables: light, dark and paper have their own.

Each of the eight colours has a contrast of at least 3 to 1 with the page, and any two of them are
some 17 units of CIE Lab apart to people who see no red, no green or no blue as well (chosen by a
search over the simulated colours of Machado, Oliveira and Fernandes 2009). Marks differ in shape
and lines in dashes besides.
"""

from __future__ import annotations

N_COLORS = 8

LIGHT = """
--page: #ffffff; --panel: #f5f6f8; --ink: #1b1f27; --soft: #5a6270; --line: #d6dae1;
--grid: #e6e9ee; --accent: #0b62a8; --mark: #e8f1fa; --second: #f3f0e4;
--warn: #a33b00; --good: #0a7a5a;
--k1: #0049ae; --k2: #d57515; --k3: #05a86b; --k4: #57006e;
--k5: #1a7dc1; --k6: #545215; --k7: #e9268e; --k8: #0d1d28;
"""
DARK = """
--page: #14171c; --panel: #1c2027; --ink: #e6e9ee; --soft: #a3abb8; --line: #3a404b;
--grid: #2a2f38; --accent: #6db5f2; --mark: #1d3247; --second: #302d20;
--warn: #ffa167; --good: #4fd1a5;
--k1: #0f89fc; --k2: #ff9b26; --k3: #65dc93; --k4: #a455b4;
--k5: #afcbff; --k6: #a99643; --k7: #e7578f; --k8: #ffffec;
"""

PLOT_STYLE = """
.plot text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--ink);
  font-variant-numeric: tabular-nums; }
.plot .tick, .plot .small { font-size: 12px; fill: var(--soft); }
.plot .grid { stroke: var(--grid); stroke-width: 1; fill: none; }
.plot .axis { stroke: var(--line); stroke-width: 1; fill: none; }
.plot .mark { stroke: var(--page); stroke-width: 1; }
.plot .theirs { fill: none; stroke: var(--ink); stroke-width: 1.6; }
.plot .interval { stroke: var(--soft); stroke-width: 1; opacity: 0.45; fill: none; }
.plot .frontier { stroke: var(--ink); stroke-width: 1.5; opacity: 0.65; fill: none; }
.plot .ring { fill: none; stroke: var(--ink); stroke-width: 2; }
.plot .leader { stroke: var(--soft); stroke-width: 1; fill: none; }
.plot .curve { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.plot .label { paint-order: stroke; stroke: var(--page); stroke-width: 4px;
  stroke-linejoin: round; }
.plot .strong { font-weight: 650; }
.plot .tie { fill: none; stroke-width: 1; opacity: 0.7; }
.plot .dots { fill: none; stroke: var(--k1); stroke-width: 4.5; stroke-linecap: round; }
.plot .mean { stroke: var(--k2); stroke-width: 1.5; stroke-dasharray: 5 3; fill: none; }
""" + "".join(
    f".plot .k{i} {{ fill: var(--k{i}); }} .plot .l{i} {{ stroke: var(--k{i}); }}\n"
    for i in range(1, N_COLORS + 1)
)

DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "12 4", "1 4", "6 2 1 2")
"""Of lines, by the number of their colour."""
