"""How a report looks: on a screen, light or dark, on a phone and on paper."""

from __future__ import annotations

from bitkin.evaluate.reporting.plots.palette import DARK, LIGHT, PLOT_STYLE

_PAGE = """
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; margin: 0;
  color: var(--ink); background: var(--page); }
main { max-width: 72rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 2.75rem 0 0.75rem; }
h3 { font-size: 1.05rem; margin: 0 0 0.5rem; }
h4 { font-size: 0.85rem; font-weight: 600; color: var(--soft); margin: 0.5rem 0 0.35rem; }
p { max-width: 46rem; margin: 0.5rem 0; overflow-wrap: anywhere; }
.soft { color: var(--soft); font-weight: 400; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap; }
"""

_FACTS = """
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(10.5rem, 1fr));
  margin: 0; background: var(--panel); border: 1px solid var(--line); border-radius: 8px;
  padding: 0.35rem 0; }
.facts div { padding: 0.35rem 0.9rem; }
dt { font-size: 0.8rem; color: var(--soft); overflow-wrap: anywhere; }
dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.choice { border-left: 4px solid var(--accent); background: var(--panel); padding: 0.9rem 1.25rem;
  border-radius: 0 8px 8px 0; margin-top: 2rem; }
.choice h2 { margin: 0; font-size: 0.9rem; color: var(--soft); font-weight: 600; }
.headline { font-size: 1.3rem; font-weight: 650; line-height: 1.35; margin: 0.1rem 0 0.6rem; }
.figures { display: flex; flex-wrap: wrap; gap: 0.5rem 2.25rem; margin: 0.75rem 0; }
.figures dd { font-size: 1.25rem; font-weight: 600; }
"""

_TABLES = """
.scroll { overflow: auto; border-radius: 6px; }
.scroll:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.tall { max-height: 34rem; }
table { border-collapse: separate; border-spacing: 0; width: 100%; min-width: 46rem;
  font-size: 0.875rem; font-variant-numeric: tabular-nums; }
.caption { font-size: 0.875rem; color: var(--soft); margin: 1rem 0 0.25rem; }
th, td { padding: 0.34rem 0.7rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--grid); max-width: 26rem; overflow-wrap: break-word; }
thead th { position: sticky; top: 0; background: var(--page); color: var(--soft);
  font-weight: 600; border-bottom: 1px solid var(--line); vertical-align: bottom; }
td.number { white-space: nowrap; }
th { line-height: 1.25; overflow-wrap: normal; }
.badge { font-size: 0.72rem; font-weight: 600; color: var(--page); background: var(--accent);
  border-radius: 3px; padding: 0.08rem 0.35rem; white-space: nowrap; margin-left: 0.25rem; }
.runner-up .badge { background: var(--soft); }
.number { text-align: right; }
td:first-child { min-width: 8.5rem; }
.chosen td:first-child, .runner-up td:first-child { min-width: 12rem; }
tbody tr:nth-child(even) td { background: var(--panel); }
tbody tr.chosen td { background: var(--mark); font-weight: 600; }
tbody tr.runner-up td { background: var(--second); }
tbody tr.chosen td:first-child { box-shadow: inset 3px 0 var(--accent); }
tbody tr.runner-up td:first-child { box-shadow: inset 3px 0 var(--soft); }
tbody tr.warning td:first-child { color: var(--warn); font-weight: 650; }
tbody tr.notice td:first-child { color: var(--accent); font-weight: 650; }
tbody tr.fine td:first-child { color: var(--good); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--panel);
  padding: 0.8rem 1rem; border: 1px solid var(--line); border-radius: 6px; font-size: 0.875rem; }
"""

_FIGURES = """
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr));
  gap: 1.5rem 2rem; margin: 0.75rem 0 1.5rem; align-items: start; }
figure { margin: 0; min-width: 0; max-width: 46rem; }
svg.plot { display: block; width: 100%; min-width: 26rem; height: auto; }
figcaption { font-size: 0.875rem; color: var(--soft); margin-top: 0.35rem;
  overflow-wrap: anywhere; }
figcaption b { color: var(--ink); }
.query { border-top: 1px solid var(--line); padding: 0.9rem 0; display: grid;
  grid-template-columns: 9rem minmax(0, 1fr); gap: 0 1.25rem; }
.query h3 { grid-column: 1 / -1; }
.query img { width: 64px; height: 64px; object-fit: contain; image-rendering: pixelated;
  background: var(--panel); border: 1px solid var(--line); border-radius: 4px; display: block; }
.asked img { width: 112px; height: 112px; }
.asked { font-size: 0.9rem; overflow-wrap: anywhere; }
.groups:has(.texts) { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr));
  gap: 0 1.5rem; }
.query h4:first-child { margin-top: 0; }
.query ol { margin: 0 0 0.6rem; padding: 0; list-style: none; }
.query small { font-size: 0.75rem; font-variant-numeric: tabular-nums; }
.query small b { font-weight: 500; }
.pictures { display: flex; flex-wrap: wrap; gap: 0.5rem; }
.pictures li { width: 72px; line-height: 1.3; overflow-wrap: anywhere; font-size: 0.75rem; }
.pictures small .soft { display: block; }
.pictures li.is-hit img { border: 2px solid var(--good); }
.texts li { border-bottom: 1px solid var(--grid); padding: 0.25rem 0; font-size: 0.85rem;
  line-height: 1.4; overflow-wrap: anywhere; }
.texts li span + small, .texts li > span { display: block; }
.hit { color: var(--good); font-weight: 700; }
"""

_SMALL = """
@media (max-width: 40rem) {
  main { padding: 1.25rem 0.9rem 3rem; }
  h1 { font-size: 1.5rem; }
  .headline { font-size: 1.1rem; }
  .choice { padding: 0.75rem 0.9rem; }
  .facts { grid-template-columns: repeat(auto-fill, minmax(8rem, 1fr)); }
  .query { grid-template-columns: minmax(0, 1fr); }
  .asked { margin-bottom: 0.5rem; }
}
"""

_PRINT = """
@page { margin: 13mm; }
html { font-size: 11.5px; }
body { font-size: 1rem; }
main { max-width: none; padding: 0; }
.scroll, .tall { overflow: visible; max-height: none; }
thead { display: table-header-group; }
thead th { position: static; }
table { min-width: 0; }
th, td { padding: 2px 5px; }
td:first-child, .chosen td:first-child, .runner-up td:first-child { min-width: 0; }
.plots { grid-template-columns: 1fr 1fr; gap: 6mm; }
svg.plot { min-width: 0; }
.query img { width: 46px; height: 46px; }
.asked img { width: 80px; height: 80px; }
.pictures li { width: 50px; }
.query { grid-template-columns: 7rem minmax(0, 1fr); }
h2, h3 { break-after: avoid; }
figure, .choice, .query li, .pictures, tr, pre { break-inside: avoid; }
* { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
"""

PAGE_STYLE = (
    f"\n:root {{{LIGHT}}}\n@media screen and (prefers-color-scheme: dark) {{ :root {{{DARK}}} }}"
    f"{_PAGE}{_FACTS}{_TABLES}{_FIGURES}{PLOT_STYLE}{_SMALL}@media print {{{_PRINT}}}\n"
)
