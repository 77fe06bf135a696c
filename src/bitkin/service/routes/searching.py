"""`search`, `explain` and `count`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import ValidationError

from bitkin.collection.results import SearchExplanation
from bitkin.errors import InvalidInputError
from bitkin.service.asked import filter_in, read_search, require_features
from bitkin.service.batching import FoundItems
from bitkin.service.bodies import content_type, json_body, parse_body
from bitkin.service.context import collection_of, context_of, may_read
from bitkin.service.routes.answers import answer, body_of, described, encode_large, parameter
from bitkin.service.schemas import CountAnswer, CountBody, ExplainAnswer, SearchAnswer, SearchBody
from bitkin.service.served import AskedSearch, ServedCollection
from bitkin.wire import BINARY_TYPE, JSON_TYPE, rows_from_bytes

router = APIRouter(tags=["search"], dependencies=[Depends(may_read)])

_READ_HERE = 64 << 10  # bytes of a body whose queries are made ready without another thread
_FEW_HITS = 1000  # whose answer is written without another thread
_ARGUMENTS = ("k", "stage", "first", "oversample", "probes", "where", "allow", "metadata")
_OF_BINARY = {
    "parameters": [
        parameter("k", "integer", "Of a binary body: neighbours per query.", default=10),
        parameter("stage", "string", "Of a binary body.", enum=["codes", "estimate", "exact"]),
        parameter("first", "string", "Of a binary body.", enum=["codes", "estimate"]),
        parameter("oversample", "integer", "Of a binary body."),
        parameter("probes", "integer", "Of a binary body."),
        parameter("where", "string", "Of a binary body: a JSON object."),
        parameter("allow", "string", "Of a binary body: a JSON list of ids."),
        parameter("metadata", "boolean", "Of a binary body.", default=True),
    ]
}


@router.post(
    "/search",
    summary="Find the nearest rows",
    responses=described(SearchAnswer),
    openapi_extra={**body_of(SearchBody, binary=True), **_OF_BINARY},
)
async def search(request: Request) -> Response:
    """Find the nearest rows of vectors, rows, texts or codes: lists per query, nearest first.

    Searches that arrive together are searched as one batch. A body of
    `application/octet-stream` is float32 numbers, little-endian, row after row.
    """
    served = collection_of(request)
    body, asked = await _read(request, served)
    found = await served.search(asked)
    return await _answer(served, body, found)


@router.post(
    "/explain",
    summary="Find the nearest rows, and say how",
    responses=described(ExplainAnswer),
    openapi_extra={**body_of(SearchBody, binary=True), **_OF_BINARY},
)
async def explain(request: Request) -> Response:
    """Search, and return which stage came first, why, and what every stage did."""
    served = collection_of(request)
    body, asked = await _read(request, served)
    found, explained = await served.explain(asked)
    return await _answer(served, body, found, explain=_told(explained))


@router.get("/count", summary="Count rows", responses=described(CountAnswer))
async def count(request: Request, where: str | None = None) -> Response:
    """Count all rows, or those whose metadata matches a filter, as JSON."""
    served = collection_of(request)
    condition = filter_in(where)
    return answer({"count": await served.read(served.collection.count, condition)})


@router.post(
    "/count",
    summary="Count rows that match",
    responses=described(CountAnswer),
    openapi_extra=body_of(CountBody),
)
async def count_matching(request: Request) -> Response:
    """Count all rows, or those whose metadata matches a filter."""
    served = collection_of(request)
    body = await json_body(request, CountBody, context_of(request).bodies)
    return answer({"count": await served.read(served.collection.count, body.where)})


async def _read(request: Request, served: ServedCollection) -> tuple[SearchBody, AskedSearch]:
    """Return the body of a search, and what it asks for."""
    context = context_of(request)
    rows: Any = None
    kind = content_type(request, JSON_TYPE, BINARY_TYPE)
    async with context.bodies.read(request) as data:
        with served.while_open():
            if kind == BINARY_TYPE:
                rows = rows_from_bytes(data, require_features(served.n_features), "the body")
                body = _body_of_address(request)
            else:
                body = await parse_body(SearchBody, data)
            few = len(data) <= _READ_HERE and body.ids is None and body.texts is None
            if few:
                return body, read_search(served, body, context.limits, rows)
            return body, await served.read(read_search, served, body, context.limits, rows)


def _body_of_address(request: Request) -> SearchBody:
    """Return the arguments of a search whose body is its queries."""
    given = dict(request.query_params)
    if unknown := given.keys() - set(_ARGUMENTS):
        raise InvalidInputError(f"{min(unknown)} is no argument of a search.")
    words = {name: given.pop(name) for name in ("stage", "first") if name in given}
    parts = ", ".join(f'"{name}": {value}' for name, value in given.items())
    try:  # numbers, true and false, objects and lists are written as in JSON
        body = SearchBody.model_validate_json("{" + parts + "}")
    except ValidationError as error:
        if error.errors()[0]["type"] != "json_invalid":
            raise
        raise InvalidInputError(
            f"{', '.join(given)} must be as JSON writes them, such as k=10, metadata=false and "
            'where={"year":2020}.'
        ) from None
    return SearchBody.model_validate({**body.model_dump(), **words})


def _told(explained: SearchExplanation) -> dict[str, Any]:
    stages = {
        name: {
            "seconds": round(timing.seconds, 7),
            "rows_in": timing.rows_in,
            "rows_out": timing.rows_out,
        }
        for name, timing in explained.stages.items()
    }
    return {
        "index": explained.index,
        "first": explained.first,
        "why": explained.why,
        "queries": len(explained.hits),
        "stages": stages,
    }


async def _answer(
    served: ServedCollection, body: SearchBody, found: FoundItems, **more: Any
) -> Response:
    told = {
        "ids": found.ids,
        "distances": found.distances,
        "metadata": found.metadata if body.metadata else None,
        "stage": found.stage,
        "metric": served.collection.metric,
        **more,
    }
    if sum(map(len, found.ids)) <= _FEW_HITS:
        return answer(told)
    return Response(await served.read(encode_large, told), media_type=JSON_TYPE)
