"""What a collection can do, both clients can do by the same names and arguments, or it is said why
not.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import bitkin
from bitkin import AsyncClient, Client, Collection

# Of a collection, and not of its clients.
MISSING = {
    "create": "`create_collection` of a client does that",
    "open": "the service opens folders",
    "path": "a folder of another machine; `url` and `name` say which collection it is",
    "replace_hasher": "the service has no request for it: do it where the folder is",
    "rows_measured": "a figure of a search that `explain` gives",
    "row_target": "what readers of files must know, which a client asks for by itself",
    "attribute": "values that belong to the folder, such as what its texts are embedded by",
    "set_attribute": "values that belong to the folder",
    "__getstate__": "inside",
    "__setstate__": "inside",
}
# Arguments that mean nothing over HTTP: the service does it in one request.
LEFT_OUT = {"reencode": {"batch_rows", "progress"}, "backup": {"path", "progress"}}
# What an async client cannot have: there is no `await len(client)`.
ONLY_SYNC = {"__len__": "count", "__contains__": "contains", "__enter__": "__aenter__"}


def public(kind: type) -> dict[str, Any]:
    """What a class offers, by name."""
    special = {"__len__", "__contains__", "__enter__", "__exit__", "__repr__"}
    return {
        name: value
        for name, value in inspect.getmembers(kind)
        if name in special or not name.startswith("_")
    }


def parameters(function: Any) -> dict[str, tuple[Any, Any]]:
    """Names of parameters, with their kinds and defaults."""
    found = inspect.signature(function).parameters
    return {name: (one.kind, one.default) for name, one in found.items() if name != "self"}


@pytest.mark.parametrize("name", sorted(public(Collection)))
def test_every_method_of_a_collection_is_one_of_a_client(name: str) -> None:
    if name in MISSING:
        assert not hasattr(Client, name)
        assert not hasattr(AsyncClient, name)
        return
    ours, theirs = getattr(Collection, name), getattr(Client, name)
    assert isinstance(ours, property) == isinstance(theirs, property)
    if not isinstance(ours, property):
        wanted, given = parameters(ours), parameters(theirs)
        for one in LEFT_OUT.get(name, set()):
            del wanted[one]
        assert wanted.items() <= given.items()
        more = given.keys() - wanted.keys()
        assert more <= {"progress", "name"}
    other = getattr(AsyncClient, ONLY_SYNC.get(name, name), None)
    if name not in ("__exit__", "__repr__"):
        assert inspect.iscoroutinefunction(other), name


@pytest.mark.parametrize("name", sorted(public(Client)))
def test_both_clients_have_the_same_methods_and_arguments(name: str) -> None:
    if name in (*ONLY_SYNC, "__exit__"):
        return
    ours, theirs = getattr(Client, name), getattr(AsyncClient, name)
    if name in ("url", "name"):
        assert isinstance(ours, property)
        assert isinstance(theirs, property)
        return
    if not isinstance(ours, property):
        assert parameters(ours) == parameters(theirs)
    elif name not in ("url", "name"):
        assert list(parameters(theirs)) == []
    assert name in ("collection", "__repr__") or inspect.iscoroutinefunction(theirs)
    assert name == "__repr__" or (theirs.__doc__ or "").strip()


def test_both_clients_are_made_of_the_same_arguments() -> None:
    assert parameters(Client.__init__) == parameters(AsyncClient.__init__)


def test_an_async_client_has_nothing_of_its_own() -> None:
    assert public(AsyncClient).keys() <= public(Client).keys()


def test_reasons_are_given_for_what_is_there() -> None:
    assert set(MISSING) - {"__getstate__", "__setstate__"} <= public(Collection).keys()
    assert bitkin.Client is Client
