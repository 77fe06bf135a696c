"""Random trees for property tests, and slow truths about them."""

from __future__ import annotations

from hypothesis import strategies as st

Parents = dict[int, int | None]


@st.composite
def parent_maps(draw: st.DrawFn, max_nodes: int = 12) -> Parents:
    """Node 0 is the root; every other node hangs below an earlier one. At least two nodes."""
    n = draw(st.integers(2, max_nodes))
    return {0: None} | {node: draw(st.integers(0, node - 1)) for node in range(1, n)}


@st.composite
def path_lists(draw: st.DrawFn, max_nodes: int = 12) -> list[tuple[int, ...]]:
    """All leaves of a random tree, some inner nodes, the root perhaps, in any order."""
    parents = draw(parent_maps(max_nodes))
    leaves = set(parents) - set(parents.values())
    inner = draw(st.sets(st.sampled_from(sorted(set(parents) - leaves))))
    return [climb(parents, node) for node in draw(st.permutations(sorted(leaves | inner)))]


def climb(parents: Parents, node: int | None) -> tuple[int, ...]:
    """Labels from the root to a node."""
    return () if node is None else (*climb(parents, parents[node]), node)


def leaves_of(parents: Parents) -> list[int]:
    """Nodes that are no parent, in order."""
    return [node for node in parents if node not in parents.values()]
