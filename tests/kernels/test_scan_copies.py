"""What stands twice in the scan, since it is slower as one function, stays the same twice."""

from __future__ import annotations

import ast
import inspect
import textwrap

from bitkin.kernels.search import scan


def offering(function: str) -> str:
    """Return what a kernel of the scan does with a candidate: from the test of its distance on."""
    source = textwrap.dedent(inspect.getsource(scan)[inspect.getsource(scan).index(function) :])
    body = ast.parse("def " + source.split("\n@kernel")[0]).body[0]
    for node in ast.walk(body):
        statements = getattr(node, "body", [])
        for at, statement in enumerate(statements):
            if isinstance(statement, ast.If) and "distance >= limit" in ast.unparse(statement.test):
                return "\n".join(map(ast.unparse, statements[at:]))
    raise AssertionError(f"{function} has no candidate")


def test_a_candidate_is_offered_in_the_same_way_by_both_kernels() -> None:
    one, other = offering("_offer_block("), offering("_offer_marked(")
    assert one == other
    assert "_cut_back" in one
    assert len(one.splitlines()) > 12
