"""A finding: one thing that was looked at, what was measured, and what it means for a code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

LEVELS = ("fine", "notice", "warning")


@dataclass(frozen=True)
class Finding:
    """One thing that `bitkin.diagnose` looked at.

    Attributes
    ----------
    name : str
        What was looked at, such as "lengths".
    level : {"fine", "notice", "warning"}
        "fine": any code will do as far as this goes. "notice": worth knowing before a method is
        chosen. "warning": codes lose neighbours unless something is done.
    measured : str
        The figures, in a few words.
    sentence : str
        What it means for the choice of a code.
    setting : str or None
        What to set or do because of it; None where nothing helps, or nothing has to.
    values : mapping of str to number
        The figures as numbers.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((1000, 16))
    >>> X[:, 3] = 1.0
    >>> found = bitkin.diagnose(X).finding("collapsed columns")
    >>> found.level, found.measured, found.values["collapsed"]
    ('notice', '1 of 16 columns', 1)
    """

    name: str
    level: str
    measured: str
    sentence: str
    setting: str | None = None
    values: Mapping[str, int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # NumPy's numbers are no JSON, and a finding does not change
        plain = {name: _plain(value) for name, value in self.values.items()}
        object.__setattr__(self, "values", MappingProxyType(plain))

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.name, self.level, self.measured, self.sentence, self.setting)
        return Finding, (*parts, dict(self.values))

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, as JSON takes it."""
        return {
            "name": self.name,
            "level": self.level,
            "measured": self.measured,
            "sentence": self.sentence,
            "setting": self.setting,
            "values": dict(self.values),
        }


def level_of(value: float, notice: float, warning: float) -> str:
    """Return the level of a figure, of which more is worse."""
    return LEVELS[int(value > notice) + int(value > warning)]


def percent(share: float) -> str:
    """Return a share as people read it: two digits, and never 0 % or 100 % for nearly so."""
    if share <= 0 or share >= 1:
        return f"{min(max(share, 0.0), 1.0):.0%}".replace("%", " %")
    if share < 0.001:
        return "under 0.1 %"
    if share > 0.999:
        return "over 99.9 %"
    digits = 0 if 0.1 <= share < 0.995 else 1
    return f"{100 * share:.{digits}f} %"


def short(number: float) -> str:
    """Return a number with three digits and thousands apart."""
    if number == 0 or not 1e-3 <= abs(number) < 1e9:
        return f"{number:.3g}"
    decimals = max(0, 2 - len(f"{int(abs(number))}") + 1)
    text = f"{number:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _plain(value: Any) -> int | float:
    """Return a number of Python's."""
    number: int | float = value.item() if hasattr(value, "item") else value
    return number
