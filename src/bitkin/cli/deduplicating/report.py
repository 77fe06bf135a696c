"""What `bitkin dedup` says of clusters, of texts and of vectors alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bitkin.cli.output import print_table, printable
from bitkin.cli.shared import is_quiet, say

if TYPE_CHECKING:
    import numpy.typing as npt

    from bitkin.dedup.duplicates import Clustered


class DedupOutputs(NamedTuple):
    """The files to write; None where one is not wanted."""

    out: Path | None
    report: Path | None
    pairs: Path | None

    def require_writable(self) -> None:
        """Raise for a file that cannot be written, before all the work."""
        from bitkin.dedup.files import require_writable

        for path in self:
            if path is not None:
                require_writable(path)

    def say(self, instead: str) -> None:
        """Name what was written; `instead` says how to have what to keep, where that was not."""
        for what, path in zip(("kept", "dropped", "pairs"), self, strict=True):
            if path is not None:
                say(f"{what}: {printable(str(path))}")
        if self.out is None:
            say(instead)


def count_clusters(found: Clustered, alone: Mapping[str, int]) -> dict[str, Any]:
    """Return the numbers that texts and vectors share; `alone` counts what is like nothing."""
    return {
        found.unit: len(found),
        "kept": len(found.kept),
        "dropped": len(found.dropped),
        "dropped_equal": found.n_equal,
        "dropped_similar": len(found.dropped) - found.n_equal,
        **alone,
        "clusters": len(found.clusters),
        "largest_cluster": max(map(len, found.clusters), default=0),
        "pairs_compared": found.n_compared,
    }


def show_counts(title: str, counts: Mapping[str, int], n: int) -> None:
    """Print counts, with shares of `n` for those that are not indented; nothing in quiet."""
    if is_quiet():
        return
    rows = [
        (what, f"{count:,}", "" if what.startswith(" ") else f"{count / n:.1%}")
        for what, count in counts.items()
    ]
    print_table(title, ("", "count", "share"), rows)


def show_clusters(
    found: Clustered,
    likeness: npt.NDArray[Any],
    n_shown: int,
    name: Callable[[int], str],
    *,
    measure: str,
    digits: str,
) -> None:
    """Print the largest clusters: what is kept, and how like it the dropped ones are; nothing in
    quiet.
    """
    from numpy import searchsorted

    largest = sorted(found.clusters, key=len, reverse=True)[:n_shown]
    if is_quiet() or not largest:
        return
    rows = []
    for members in largest:
        of_members = likeness[searchsorted(found.dropped, members[1:])]
        low, high = f"{of_members.min():{digits}}", f"{of_members.max():{digits}}"
        between = low if low == high else f"{low} to {high}"
        rows.append((name(int(members[0])), f"{len(members) - 1:,}", between))
    columns = ("kept", "dropped", f"{measure} to the kept one")
    print_table(f"largest of {len(found.clusters):,} clusters", columns, rows)
