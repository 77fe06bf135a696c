"""schemathesis against a service: requests made from `/openapi.json`, answers held to it.

What is said there fits any collection, so that most requests made from it are refused at once. A
second description, of the same answers, says what this collection takes: those go deep.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks as openapi_checks

from tests.service.hostile.kinds import NAMES, D
from tests.service.hostile.raw import PATIENCE, ask
from tests.service.process import wait_until_ready

_CHECKS = [
    schemathesis.checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
]
_NUMBER = {"type": "number", "minimum": -8, "maximum": 8}
_DENSE = {
    "type": "array",
    "minItems": 1,
    "maxItems": 3,
    "items": {"type": "array", "minItems": D, "maxItems": D, "items": _NUMBER},
}
_SPARSE = {
    "type": "array",
    "minItems": 1,
    "maxItems": 3,
    "items": {
        "type": "object",
        "required": ["indices", "values"],
        "additionalProperties": False,
        "properties": {
            "indices": {"type": "array", "items": {"enum": [1, 3]}, "minItems": 1, "maxItems": 1},
            "values": {"type": "array", "items": _NUMBER, "minItems": 1, "maxItems": 1},
        },
    },
}
_PACKED = {
    "type": "object",
    "required": ["float32"],
    "additionalProperties": False,
    "properties": {
        "float32": {"enum": ["AAAAAAAAgD8AAABAAABAQAAAgEAAAKBAAADAQAAA4EA="]},
        "n_features": {"enum": [D]},
    },
}
_CODES = {
    "type": "array",
    "minItems": 1,
    "maxItems": 3,
    "items": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
}
_TEXTS = {"type": "array", "minItems": 1, "maxItems": 3, "items": {"enum": ["rain", "sun", ""]}}
_WHERE: dict[str, Any] = {
    "anyOf": [
        {"type": "null"},
        {
            "enum": [
                {"year": 2003},
                {"year": {"gte": 2003}, "good": True},
                {"title": {"contains": "7"}},
                {"or": [{"year": [2001, 2002]}, {"not": {"deep": {"exists": True}}}]},
            ]
        },
    ]
}
_METADATA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "year": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 3000}, {"type": "null"}]},
        "title": {"enum": ["a note", "ä", ""]},
        "deep": {"enum": [None, {"by": [1, None]}]},
    },
}
_LINES = {"enum": ['{"id": 7, "vector": [1, 2, 3, 4, 5, 6, 7, 8], "year": 2020}\n', "{}", ""]}
_FORMS = ("vectors", "texts", "ids", "codes")  # of a query


class Documented:
    """A service, and what was asked of it.

    Parameters
    ----------
    url : str
    kind : str
        Of its collection.
    """

    def __init__(self, url: str, kind: str) -> None:
        self._url = url
        told = json.loads(ask(url, "GET", "/openapi.json").body)
        named = "/v1/collections/{name}/"
        told["paths"] = {
            path: about
            for path, about in told["paths"].items()
            # both prefixes lead to the same functions: one of them is enough
            if path.startswith(named) == (kind == "folder") or path.count("/") < 3
        }
        self._descriptions = [told, _narrow(copy.deepcopy(told), kind)]
        self.statuses: Counter[int] = Counter()
        """Of all answers."""

    @property
    def n_requests(self) -> int:
        """Requests so far."""
        return self.statuses.total()

    def attack(self, n_examples: int, *, same: bool = True) -> None:
        """Send so many requests to each operation of each description; raise at the first answer
        that is none of those described. They are the `same` every time, or other ones.
        """
        wait_until_ready(self._url)  # until then /readyz says 503, as it should
        with requests.Session() as session:
            for description in self._descriptions:
                schema = schemathesis.openapi.from_dict(description)
                for operation in schema.get_all_operations():
                    assert isinstance(operation, Ok), operation
                    self._attack_one(operation.ok(), session, n_examples, same)

    def _attack_one(self, operation: Any, session: Any, n_examples: int, same: bool) -> None:
        if not (operation.body or operation.query or operation.path_parameters):
            n_examples = 1

        @settings(
            max_examples=n_examples,
            deadline=None,
            database=None,
            derandomize=same,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate],
        )
        @given(case=operation.as_strategy())
        def send(case: Any) -> None:
            answer = case.call(base_url=self._url, session=session, timeout=PATIENCE)
            self.statuses[answer.status_code] += 1
            case.validate_response(answer, checks=_CHECKS)

        send()


def _narrow(told: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return a description of requests that a collection of that kind may accept."""
    ids: list[Any] = [f"row {i}" for i in range(13, 60)] if kind == "str" else list(range(60))
    values = {
        "vectors": {
            "codes": _SPARSE,
            "csr": {"anyOf": [_DENSE, _SPARSE]},
        }.get(kind, {"anyOf": [_DENSE, _SPARSE, _PACKED]}),
        "codes": _CODES,
        "texts": _TEXTS,
        "ids": {"type": "array", "items": {"enum": ids}, "maxItems": 3, "uniqueItems": True},
        "allow": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"enum": ids}}]},
        "where": _WHERE,
        "k": {"type": "integer", "minimum": 1, "maximum": 20},
        "oversample": {"enum": [None, 1, 5]},
        "probes": {"enum": [None]},
        "corrections": {"enum": [None]},
        "limit": {"type": "integer", "minimum": 0, "maximum": 30},
        "offset": {"type": "integer", "minimum": 0, "maximum": 30},
        "name": {"enum": ["new-1", "new-2"]},
        "sample": {"enum": [[[1, 2, 3], [2, 3, 5], [9, 1, 1], [4, 4, 7]]]},
        "model": {"enum": [None]},
        "n_features": {"enum": [None, 3]},
        "n_bits": {"enum": [None, 2, 64]},
        "fields": {"enum": [{}, {"year": "int"}]},
        "text_key": {"enum": ["text"]},
    }
    wheres: list[Any] = _WHERE["anyOf"][1]["enum"]
    for about in told["paths"].values():
        for operation in about.values():
            for one in operation.get("parameters", []):
                if one["name"] == "where":
                    one["schema"] = {"enum": [json.dumps(where) for where in wheres]}
                elif one["name"] == "name":
                    one["schema"] = {"enum": [*NAMES, "new-1"]}
                elif one["name"] == "id":
                    one["schema"] = {"enum": [str(i) for i in ids]}
                elif one["name"] == "first_id":
                    one["schema"] = {"enum": [10_000]}
            content = operation.get("requestBody", {}).get("content", {})
            if "application/x-ndjson" in content:
                content["application/x-ndjson"] = {"schema": _LINES}
            content.pop("application/octet-stream", None)
            if "application/json" in content:
                body = content["application/json"]["schema"]
                content["application/json"]["schema"] = _narrow_body(body, values, kind)
    return told


def _narrow_body(body: dict[str, Any], values: dict[str, Any], kind: str) -> dict[str, Any]:
    body.pop("examples", None)
    properties = body["properties"]
    for name in properties.keys() & values.keys():
        properties[name] = values[name]
    if "metadata" in properties and properties["metadata"].get("type") != "boolean":
        several = {"anyOf": [_METADATA, {"type": "array", "items": _METADATA}]}
        properties["metadata"] = several if "ids" in properties else _METADATA
    forms = [name for name in _FORMS if name in properties]
    if "texts" not in forms:
        return body
    if "text_key" in properties:  # rows to write
        forms.remove("ids")
        properties["metadata"] = {"enum": [None]}
    variants = []
    for form in forms:
        if form == "codes" and kind != "codes" and "text_key" in properties:
            continue
        others = set(forms) - {form}
        own = {name: value for name, value in properties.items() if name not in others}
        variants.append({**body, "properties": own, "required": [form]})
    return {"anyOf": variants}
