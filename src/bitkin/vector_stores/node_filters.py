"""LlamaIndex's `MetadataFilters` as the `where` of a collection.

They match what they match in LlamaIndex's own `SimpleVectorStore`: a value that is missing is not
equal to anything and in no list, so `NE` and `NIN` match it, and no other operator does but
`IS_EMPTY`. Types do not mix: 1 is not True.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from bitkin.checks import shown
from bitkin.collection.metadata.documents import CONNECTIVES
from bitkin.collection.metadata.filters import parse_filter
from bitkin.errors import InvalidInputError
from bitkin.vector_stores.text_rows import SOURCE

# Other stores keep the source of a node under these names. A node's own metadata comes first.
_SOURCE_NAMES = ("ref_doc_id", "doc_id", "document_id")


def read_node_filters(filters: MetadataFilters | None) -> dict[str, Any] | None:
    """Return filters as `where`; raise for what cannot be asked. None and none at all match every
    node.

    Examples
    --------
    >>> from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
    >>> read_node_filters(MetadataFilters(filters=[
    ...     MetadataFilter(key="year", operator=">=", value=2020),
    ...     MetadataFilter(key="lang", operator="nin", value=["en", "fr"])]))
    {'and': [{'year': {'gte': 2020}}, {'not': {'lang': {'in': ['en', 'fr']}}}]}
    """
    if filters is None:
        return None
    if not isinstance(filters, MetadataFilters):
        raise InvalidInputError(
            f"filters must be MetadataFilters of llama_index, got {shown(filters)}."
        )
    if not filters.filters:
        return None
    where = _read(filters)
    try:
        parse_filter(where)
    except InvalidInputError as error:
        raise InvalidInputError(str(error).replace("where", "filters", 1)) from None
    return where


def _read(filters: MetadataFilters) -> dict[str, Any]:
    parts = [
        _read(part) if isinstance(part, MetadataFilters) else _read_filter(part)
        for part in filters.filters
    ]
    condition = filters.condition or FilterCondition.AND
    if condition == FilterCondition.AND:
        return parts[0] if len(parts) == 1 else {"and": parts}
    if condition == FilterCondition.OR:
        return {"or": parts}
    if condition == FilterCondition.NOT:
        return {"not": {"or": parts}}  # matches where none does
    raise InvalidInputError(f"filters must be joined by and, or, not, got {shown(condition)}.")


def _read_filter(given: MetadataFilter) -> dict[str, Any]:
    if given.key in CONNECTIVES:
        raise InvalidInputError(
            f"filters must not name the key {given.key!r}, which means something else in a "
            "collection. Choose another name."
        )
    write = _WRITERS.get(given.operator)
    if write is None:
        reason = ""
        if given.operator.value == "text_match_insensitive":
            reason = (
                " Upper and lower case differ here: use text_match, or keep a copy in lower case."
            )
        raise InvalidInputError(
            f"filters must use operators that a collection has, got {given.operator.value!r} for "
            f"{shown(given.key)}.{reason}"
        )
    if given.value is None and given.operator != FilterOperator.IS_EMPTY:
        raise InvalidInputError(
            f"filters must compare with a value, got {given.operator.value!r} None for "
            f"{shown(given.key)}. Missing values are found by is_empty."
        )
    if given.operator in _OF_LISTS and not isinstance(given.value, list):
        raise InvalidInputError(
            f"filters must have a list for {given.operator.value!r}, got {shown(given.value)} for "
            f"{shown(given.key)}."
        )
    if given.key in _SOURCE_NAMES:
        own, source = write(given.key, given.value), write(SOURCE, given.value)
        has_own = {given.key: {"exists": True}}
        return {"or": [{"and": [has_own, own]}, {"and": [{"not": has_own}, source]}]}
    return write(given.key, given.value)


def _write_operator(operator: str) -> Callable[[str, Any], dict[str, Any]]:
    return lambda key, value: {key: {operator: value}}


def _write_empty(key: str, value: Any) -> dict[str, Any]:
    # an empty list is kept aside, so it is missing
    return {"or": [{key: {"exists": False}}, {key: {"eq": ""}}]}


def _write_all(key: str, values: list[Any]) -> dict[str, Any]:
    return {"and": [{key: {"exists": True}}, *({key: {"contains": value}} for value in values)]}


_OF_LISTS = (FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL)
_WRITERS: dict[FilterOperator, Callable[[str, Any], dict[str, Any]]] = {
    FilterOperator.EQ: _write_operator("eq"),
    FilterOperator.NE: lambda key, value: {"not": {key: {"eq": value}}},
    FilterOperator.GT: _write_operator("gt"),
    FilterOperator.GTE: _write_operator("gte"),
    FilterOperator.LT: _write_operator("lt"),
    FilterOperator.LTE: _write_operator("lte"),
    FilterOperator.IN: _write_operator("in"),
    FilterOperator.NIN: lambda key, values: {"not": {key: {"in": values}}},
    FilterOperator.CONTAINS: _write_operator("contains"),
    FilterOperator.TEXT_MATCH: _write_operator("contains"),
    FilterOperator.ANY: lambda key, values: {
        "or": [{key: {"contains": value}} for value in values]
    },
    FilterOperator.ALL: _write_all,
    FilterOperator.IS_EMPTY: _write_empty,
}
