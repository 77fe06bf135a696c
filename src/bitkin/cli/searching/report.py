"""What a search found, as lines, in a file, and in a few words; and what its stages took."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitkin.cli.output import print_json, print_table

if TYPE_CHECKING:
    import numpy.typing as npt

    from bitkin.code_spec import CodeSpec
    from bitkin.index.results import Neighbors, RaggedNeighbors
    from bitkin.rescoring.funnel import Step, Timings

    Found = Neighbors | RaggedNeighbors

_SHOWN = 10  # neighbours a line


def rows_of(result: Found) -> Iterator[tuple[list[int], list[Any]]]:
    """Yield ids and distances of every query, padding left out."""
    from bitkin.index.results import Neighbors

    if isinstance(result, Neighbors):
        for ids, distances in zip(result.ids, result.distances, strict=True):
            yield ids[ids >= 0].tolist(), distances[ids >= 0].tolist()
    else:
        for first, last in zip(result.offsets[:-1], result.offsets[1:], strict=True):
            yield result.ids[first:last].tolist(), result.distances[first:last].tolist()


def write_nearest(path: Path, found: list[Neighbors], last: Step, spec: CodeSpec) -> None:
    """Write the k nearest of all queries to an .npz file."""
    from bitkin.collection.results import join_parts

    ids, distances = join_parts(found, last, spec)
    _write(path, ids=ids, distances=distances)


def write_within(path: Path, found: list[RaggedNeighbors]) -> None:
    """Write all within a radius to an .npz file."""
    import numpy as np

    nothing, no_distance = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    counts = np.concatenate([nothing, *(np.diff(result.offsets) for result in found)])
    _write(
        path,
        ids=np.concatenate([nothing, *(result.ids for result in found)]),
        distances=np.concatenate([no_distance, *(result.distances for result in found)]),
        offsets=np.concatenate([[0], np.cumsum(counts)]),
    )


def _write(path: Path, **arrays: npt.NDArray[Any]) -> None:
    import numpy as np

    from bitkin.io.writer import write_aside

    write_aside(path, lambda file: np.savez(file, allow_pickle=False, **arrays))


def show(found: list[Found], n_queries: int, n_shown: int, seconds: float, n_rows: int) -> None:
    """Print the neighbours of a few queries, and the time that all took."""
    lines: list[str] = []
    for result in found:
        for ids, distances in rows_of(result):
            if len(lines) == n_shown:
                break
            pairs = " ".join(
                f"{i}:{_short(d)}" for i, d in zip(ids[:_SHOWN], distances[:_SHOWN], strict=True)
            )
            more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            lines.append(f"{len(lines):5d}  {pairs}{more}")
    if lines:
        print(
            "query  neighbours as id:distance, nearest first (all of them: --json or --out "
            "found.npz)"
        )
        print("\n".join(lines))
    each = 1e6 * seconds / max(1, n_queries)
    print(
        f"{n_queries:,} queries among {n_rows:,} codes in {seconds:.3f} s, {each:,.0f} µs a query"
    )


def explain(timings: Timings, n_queries: int, index: str, json: bool) -> None:
    """Print what every stage took: a table, or one JSON object."""
    each = max(1, n_queries)
    stages = {
        name: {
            "seconds": round(timing.seconds, 6),
            "microseconds_a_query": round(1e6 * timing.seconds / each, 1),
            "rows_in_a_query": round(timing.rows_in / each, 1),
            "rows_out_a_query": round(timing.rows_out / each, 1),
        }
        for name, timing in timings.stages.items()
    }
    if json:
        print_json(explain={"index": index, "queries": n_queries, "stages": stages})
        return
    columns = ("stage", "seconds", "µs a query", "rows in", "rows out")
    rows = [
        (
            name,
            f"{stage['seconds']:.3f}",
            f"{stage['microseconds_a_query']:,.0f}",
            f"{stage['rows_in_a_query']:,.0f}",
            f"{stage['rows_out_a_query']:,.0f}",
        )
        for name, stage in stages.items()
    ]
    print_table(f"{index}, {n_queries:,} queries; rows are those of a query", columns, rows)


def _short(distance: float) -> str:
    return str(distance) if isinstance(distance, int) else f"{distance:.4g}"
