"""Errors as a service tells them: problem+json (RFC 9457), with the field that is wrong."""

from __future__ import annotations

import http
import json
import re
from collections.abc import Mapping
from typing import Any

from fastapi import HTTPException, Response
from pydantic import ValidationError

from bitkin.checks import shown
from bitkin.errors import (
    ArgumentError,
    BitkinError,
    CodeMismatchError,
    CorruptFileError,
    DuplicateIdError,
    FileAccessError,
    FileTooLargeError,
    InvalidInputError,
    MissingExtraError,
    UnknownIdError,
)
from bitkin.wire import PROBLEM_TYPE

RETRY_SECONDS = 1
_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (DuplicateIdError, 409),
    (UnknownIdError, 404),
    (CodeMismatchError, 422),
    (InvalidInputError, 422),
    (MissingExtraError, 501),
    (FileTooLargeError, 413),
    (FileAccessError, 503),
    (CorruptFileError, 500),
    (MemoryError, 413),
)
# A message of the library begins with the argument that is wrong, perhaps with a place in it.
_FIELD = re.compile(
    r"(?:embed for )?(vectors|ids|texts|codes|corrections|metadata|where|allow|k|stage|first|"
    r"oversample|probes|limit|offset|queries|n_features|n_bits|sample|model|name|metric|fields|"
    r"index|replace|missing|by|n|field|first_id|rows)\b"
)
# What is called otherwise in a request.
_RENAMED = {"queries": "vectors"}
FAULT = "a fault of the service, which its log tells."
"""What whoever sent a request is told of an error that nobody thought of."""
_FULL_MEMORY = "this does not fit into the memory of the service. Ask for less at a time."


def problem(
    status: int,
    detail: str,
    *,
    field: str | None = None,
    error: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an answer that says what is wrong."""
    about: dict[str, Any] = {
        "type": "about:blank",
        "title": http.HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    if field is not None:
        about["field"] = field
    if error is not None:
        about["error"] = error
    return Response(json.dumps(about), status, dict(headers or {}), PROBLEM_TYPE)


def problem_of_error(error: Exception) -> Response:
    """Return the answer that an error of the library becomes."""
    status = next((number for kind, number in _STATUSES if isinstance(error, kind)), 500)
    headers = {"Retry-After": str(RETRY_SECONDS)} if status == 503 else None
    name = type(error).__name__
    if isinstance(error, MemoryError) and not isinstance(error, BitkinError):
        return problem(status, _FULL_MEMORY, error=name)
    field = error.argument if isinstance(error, ArgumentError) else None
    if field is None and status in (404, 409, 422):
        found = _FIELD.match(str(error))
        field = None if found is None else _RENAMED.get(found[1], found[1])
    return problem(status, str(error), field=field, error=name, headers=headers)


def problem_of_http(error: HTTPException) -> Response:
    """Return the answer that an error of the protocol becomes."""
    return problem(error.status_code, str(error.detail), headers=error.headers)


def problem_of_values(error: ValidationError) -> Response:
    """Return the answer for a body of wrong shape: JSON that cannot be read is 400, else 422."""
    first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))
    if first["type"] == "json_invalid":
        return problem(400, f"the body must be JSON: {first['ctx']['error']}.")
    message = first["msg"]
    if first["type"] == "extra_forbidden":
        return problem(422, f"{field} is no field of this request.", field=field)
    if first["type"] == "missing":
        return problem(422, f"{field} must be given.", field=field)
    at = f"{field}: " if field else "the body: "
    return problem(422, f"{at}{message}, got {shown(first['input'])}.", field=field or None)
