"""How routes answer: JSON in as few steps as possible, and what OpenAPI says of it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from fastapi import Response
from pydantic import BaseModel

from bitkin.service.schemas import ProblemAnswer
from bitkin.wire import BINARY_TYPE, JSON_TYPE, LINES_TYPE, PROBLEM_TYPE

_TEXT = {"type": "string"}
_PROBLEM = ProblemAnswer.model_json_schema()
_PLAIN_AT_ONCE = 10_000  # numbers or strings, which takes a millisecond
_TITLES = {
    400: "Not JSON",
    401: "No token, or a wrong one",
    403: "Not with this token, or not from there",
    404: "Not there",
    405: "Not possible here",
    408: "The body came too slowly",
    409: "There already",
    412: "Started again since",
    413: "Too large",
    415: "Another content type is needed",
    421: "Not under this name",
    422: "A value that cannot be used",
    429: "Too many are waiting",
    500: "A fault of the service",
    501: "Not installed",
    503: "Not now",
}


def answer(content: Any, status: int = 200) -> Response:
    """Return a JSON answer; what no JSON can hold (infinity) becomes null."""
    return Response(_as_text(content), status, media_type=JSON_TYPE)


def encode_large(content: dict[str, Any]) -> bytes:
    """Return the body of an answer whose lists are long, and may be generators: a piece at a time,
    since nobody else gets a turn while `json` writes one, whatever the thread.

    Examples
    --------
    >>> encode_large({"ids": [[7, 12]], "items": ({"id": i} for i in range(2)), "total": None})
    b'{"ids":[[7,12]],"items":[{"id":0},{"id":1}],"total":null}'
    """
    members = []
    for name, value in content.items():
        long = isinstance(value, (list, Iterator))
        text = f"[{','.join(_pieces(value))}]" if long else _as_text(value)
        members.append(f"{json.dumps(name)}:{text}")
    return f"{{{','.join(members)}}}".encode()


def _pieces(values: list[Any] | Iterator[Any]) -> Iterator[str]:
    if isinstance(values, list) and values and not isinstance(values[0], (dict, list)):
        for first in range(0, len(values), _PLAIN_AT_ONCE):
            yield _as_text(values[first : first + _PLAIN_AT_ONCE])[1:-1]
    else:
        yield from map(_as_text, values)


def _as_text(content: Any) -> str:
    try:
        return json.dumps(content, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_without_infinities(content), separators=(",", ":"))


def described(
    model: type[BaseModel] | None,
    status: int = 200,
    *,
    writes: bool = False,
    media: str | None = None,
) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says of the answers of a route."""
    good: dict[str, Any] = {"description": "Done"}
    if model is not None:
        good["model"] = model
    if media is not None:
        shape = {"type": "string", "format": "binary"} if media == BINARY_TYPE else _TEXT
        good["content"] = {media: {"schema": shape}}
    others = set(_TITLES) - ({429} if writes else {409, 412})
    return {
        status: good,
        **{
            number: {
                "description": _TITLES[number],
                "content": {PROBLEM_TYPE: {"schema": _PROBLEM}},
            }
            for number in sorted(others - {status})
        },
    }


def body_of(
    model: type[BaseModel], *, lines: bool = False, binary: bool = False, required: bool = True
) -> dict[str, Any]:
    """Return what OpenAPI says of the body of a route that reads it itself."""
    content: dict[str, Any] = {JSON_TYPE: {"schema": inline(model.model_json_schema())}}
    if lines:
        content[LINES_TYPE] = {
            "schema": {"type": "string"},
            "example": '{"id": 7, "vector": [0.1, 0.2, 0.3], "metadata": {"year": 2020}}\n',
        }
    if binary:
        content[BINARY_TYPE] = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": required, "content": content}}


def parameter(name: str, kind: str, about: str, **more: Any) -> dict[str, Any]:
    """Return what OpenAPI says of a parameter of the address."""
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": about,
        "schema": {"type": kind, **more},
    }


def inline(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose parts stand where they are used."""
    parts = schema.pop("$defs", {})

    def within(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return within(parts[node["$ref"].rpartition("/")[2]])
            return {key: within(value) for key, value in node.items()}
        return [within(one) for one in node] if isinstance(node, list) else node

    whole: dict[str, Any] = within(schema)
    return whole


def _without_infinities(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _without_infinities(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_without_infinities(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
