"""SVG as text: elements, the width that a text will take, and a plot as a whole."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from bitkin.evaluate.reporting.plots.palette import LIGHT, PLOT_STYLE
from bitkin.evaluate.reporting.text import clean, escape

TEXT_SIZE = 13.0
TICK_SIZE = 12.0
_NARROW = frozenset("ijlI.,:;'|!()[] \u00a0·⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_WIDE = frozenset("mwMW@%—…")


@dataclass(frozen=True)
class ReportPlot:
    """A drawing with its words.

    Attributes
    ----------
    name : str
        Of its file, in letters and hyphens.
    title : str
        What it shows, in a few words.
    description : str
        What can be read from it, for those who do not see it as well.
    width, height : float
        Of the drawing, in its own units.
    body : str
        What is drawn, as SVG.
    """

    name: str
    title: str
    description: str
    width: float
    height: float
    body: str

    def to_svg(self) -> str:
        """Return the drawing as part of a page, which has the style."""
        return self._svg("", self.body)

    def to_file(self) -> str:
        """Return the drawing as a file of its own: on white."""
        style = f"<style>svg {{{LIGHT}}}{PLOT_STYLE}</style>"
        ground = element("rect", width=self.width, height=self.height, fill="#ffffff")
        return self._svg(' xmlns="http://www.w3.org/2000/svg"', style + ground + self.body) + "\n"

    def _svg(self, more: str, body: str) -> str:
        title, description = escape(self.title), escape(self.description, 2_000)
        size = f"{written(self.width)} {written(self.height)}"
        own = f' width="{written(self.width)}" height="{written(self.height)}"' if more else ""
        return (
            f'<svg class="plot" data-plot="{self.name}" viewBox="0 0 {size}"{own}{more} role="img" '
            f'aria-label="{title}"><title>{title}</title><desc>{description}</desc>{body}</svg>'
        )


def element(kind: str, content: str = "", **attributes: object) -> str:
    """Return an element; names of attributes are written with _ for -, and `class_` for class.

    Examples
    --------
    >>> element("line", x1=0, x2=10.25, stroke_width=2, class_="axis")
    '<line x1="0" x2="10.25" stroke-width="2" class="axis"/>'
    """
    inside = "".join(
        f' {name.rstrip("_").replace("_", "-")}="'
        f'{written(value) if isinstance(value, (int, float)) else escape(value, 100_000)}"'
        for name, value in attributes.items()
        if value is not None and value != ""
    )
    return f"<{kind}{inside}>{content}</{kind}>" if content else f"<{kind}{inside}/>"


def text_at(x: float, y: float, words: str, class_: str = "", anchor: str = "") -> str:
    """Return text at a place: its baseline."""
    return element("text", escape(words), x=x, y=y, class_=class_, text_anchor=anchor)


def titled(words: str) -> str:
    """Return what browsers show where the pointer rests."""
    return f"<title>{escape(words, 160)}</title>"


def written(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def path_of(points: list[tuple[float, float]]) -> str:
    """Return a line through points, as the `d` of a path."""
    return "M" + "L".join(f"{written(x)},{written(y)}" for x, y in points)


def text_width(words: str, size: float = TEXT_SIZE) -> float:
    """Return about how wide a text is, rather too wide: fonts differ."""
    return size * sum(_letter_width(letter) for letter in words)


def fit_text(words: str, width: float, size: float = TEXT_SIZE) -> str:
    """Return text on one line, cut where it is wider.

    Examples
    --------
    >>> fit_text("pca × itq, 128 bits", 60)
    'pca × i…'
    """
    line = " ".join(clean(words).split())
    if text_width(line, size) <= width:
        return line
    while line and text_width(f"{line}…", size) > width:
        line = line[:-1]
    return f"{line.rstrip()}…"


def fit_name(method: str, n_bits: int, width: float, size: float = TEXT_SIZE) -> str:
    """Return a method with its bits, which stay where the method's name is cut.

    Examples
    --------
    >>> fit_name("frequent-directions", 256, 120)
    'frequ…, 256 bits'
    """
    bits = f", {n_bits:,} bits"
    return fit_text(method, width - text_width(bits, size), size) + bits


def _letter_width(letter: str) -> float:
    if unicodedata.east_asian_width(letter) in "WF" or ord(letter) > 0xFFFF:
        return 1.3
    if letter in _NARROW:
        return 0.36
    if letter in _WIDE:
        return 1.0
    return 0.72 if letter.isupper() else 0.61
