"""One collection of a service: its address, what is known of it, and asking it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from bitkin._version import __version__
from bitkin.checks import shown
from bitkin.client.messages import AnswerSink, Flow, ServiceReply, ServiceRequest
from bitkin.client.retrying import RetryPolicy, exchange
from bitkin.code_spec import CodeSpec
from bitkin.collection.ids import CollectionIds, IntegerIds, StringIds
from bitkin.errors import (
    AccessDeniedError,
    BitkinError,
    EnvironmentVariableError,
    FileAccessError,
    FileTooLargeError,
    InvalidInputError,
    MissingExtraError,
    ServiceError,
)
from bitkin.wire import error_named

_SPEC = re.compile(r"(\d+) × (\d+)-bit")
# Errors that speak of a machine, which is not the one where they are read.
_OF_MACHINE = (EnvironmentVariableError, FileAccessError, FileTooLargeError, MissingExtraError)
_OTHER_INSTANCE = 412
_RESTARTS = 3  # of the service, while one request is sent


class ServiceInfo(NamedTuple):
    """What a service says of itself."""

    version: str
    instance: str | None
    """Of the running process; None where it does not know requests again by their keys."""
    read_only: bool
    """For this token."""
    limits: Mapping[str, float]

    @property
    def most_rows(self) -> int:
        """Rows of one request."""
        return int(self.limits["rows"])

    @property
    def most_numbers(self) -> float:
        """Numbers of all vectors of one page; services of before had no such limit."""
        return self.limits.get("numbers", float("inf"))

    @property
    def most_bytes(self) -> int:
        """Bytes of one request."""
        return int(self.limits["body"])

    def most_queries(self, k: int) -> int:
        """Return how many queries of `k` neighbours go into one request."""
        return max(1, min(int(self.limits["queries"]), int(self.limits["hits"]) // k))


class CollectionInfo(NamedTuple):
    """What a client must know of a collection to write requests and read answers."""

    ids: CollectionIds
    """Checks ids of the kind that the collection has."""
    n_features: int | None
    """Length of its vectors; None where they may have any."""
    spec: CodeSpec
    fingerprint: str
    vectors: str | None
    """How vectors are kept, None for not at all."""
    fields: dict[str, str]
    metric: str
    stage: str
    read_only: bool

    @property
    def has_string_ids(self) -> bool:
        """Whether ids are strings."""
        return isinstance(self.ids, StringIds)


class RemoteCollection:
    """A collection at an address, and what is known of it so far. Its methods are flows."""

    def __init__(self, url: str, name: str | None, policy: RetryPolicy) -> None:
        self.url = url
        self.name = name
        self.policy = policy
        self._path = "/v1" if name is None else f"/v1/collections/{quote(name, safe='')}"
        self._service: ServiceInfo | None = None
        self._about: CollectionInfo | None = None

    def named(self, name: str) -> RemoteCollection:
        """Return another collection of the same service."""
        other = RemoteCollection(self.url, name, self.policy)
        other._service = self._service
        return other

    def path_to(self, what: str) -> str:
        """Return the path of something of the collection."""
        return f"{self._path}/{what}"

    def forget(self) -> None:
        """Ask again for what may have changed, when it is needed."""
        self._service = self._about = None

    def ask(
        self,
        method: str,
        path: str,
        body: str | dict[str, Any] | None = None,
        *,
        keyed: bool = False,
        takes_long: bool = False,
        sink: AnswerSink | None = None,
    ) -> Flow[Any]:
        """Send one request about the collection, and return what JSON its answer holds; raise what
        it says is wrong.
        """
        reply = yield from self.send(
            method, self.path_to(path), body, keyed=keyed, takes_long=takes_long, sink=sink
        )
        return None if sink is not None else self.read(reply)

    def send(
        self,
        method: str,
        path: str,
        body: str | dict[str, Any] | None = None,
        *,
        keyed: bool = False,
        takes_long: bool = False,
        sink: AnswerSink | None = None,
        passing: tuple[int, ...] = (),
    ) -> Flow[ServiceReply]:
        """Send one request to the service, and return its answer if that is a good one or has one
        of the statuses `passing`; raise what it says is wrong.
        """
        text = json.dumps(body, allow_nan=False) if isinstance(body, dict) else body
        request = ServiceRequest(
            method,
            path,
            None if text is None else text.encode(),
            "keyed" if keyed else "always",
            takes_long=takes_long,
            sink=sink,
        )
        for _ in range(_RESTARTS):
            if keyed:
                service = yield from self.service()
                request = request.with_key(service.instance)
            reply = yield from exchange(request, self.url, self.policy)
            if not (keyed and reply.status == _OTHER_INSTANCE):
                break
            self._service = None  # it was started again since: its new instance knows no keys yet
            if reply.doubtful:
                break
        if 200 <= reply.status < 300 or reply.status in passing:
            return reply
        raise self.error_in(reply)

    def service(self) -> Flow[ServiceInfo]:
        """Return what the service says of itself, asked for once."""
        known = self._service  # another thread may forget it at any time
        if known is not None:
            return known
        request = ServiceRequest("GET", "/v1/service")
        reply = yield from exchange(request, self.url, self.policy)
        if reply.status != 200 and (reply.status == 404 or not reply.problem):
            raise self._not_a_service(reply)
        if reply.status != 200:
            raise self.error_in(reply)
        found = self.read(reply)
        with self.understood("what it is"):
            told = ServiceInfo(
                str(found["version"]),
                found.get("instance"),
                bool(found["read_only"]) or not found["can_write"],
                {name: float(found["limits"][name]) for name in found["limits"].keys() | _LIMITS},
            )
        self._service = told
        return told

    def about(self) -> Flow[CollectionInfo]:
        """Return what must be known of the collection, asked for once."""
        known = self._about
        return known if known is not None else (yield from self.about_now())

    def about_now(self) -> Flow[CollectionInfo]:
        """Return what must be known of the collection, asked for again."""
        yield from self.service()
        found = yield from self.ask("GET", "stats")
        with self.understood("stats"):
            n_symbols, bits = map(int, _SPEC.fullmatch(found["codes"]).groups())  # type: ignore[union-attr]
            n_features = found["n_features"]
            told = CollectionInfo(
                StringIds() if found["ids"] == "str" else IntegerIds(),
                None if n_features is None else int(n_features),
                CodeSpec(n_symbols, bits),
                str(found["fingerprint"]),
                found["vectors"],
                dict(found["fields"]),
                str(found["metric"]),
                str(found["stage"]),
                bool(found.get("read_only")),
            )
        self._about = told
        return told

    def read(self, reply: ServiceReply) -> Any:
        """Return what JSON a good answer holds."""
        if not reply.content:
            return None
        try:
            return json.loads(reply.content)
        except ValueError:
            raise self._not_a_service(reply) from None

    @contextmanager
    def understood(self, what: str) -> Iterator[None]:
        """Let an answer that is not as it should be end in words."""
        try:
            yield
        except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as flaw:
            service = self._service
            theirs = "of another version" if service is None else service.version
            raise ServiceError(
                f"{self.url} answered {what} in a way that this version of bitkin, {__version__}, "
                f"does not understand. The service is {theirs}: update the older of the two."
            ) from flaw

    def error_in(self, reply: ServiceReply) -> BitkinError:
        """Return the error that an answer tells of."""
        problem = reply.problem
        if not problem:
            return self._not_a_service(reply)
        detail, status = problem["detail"], reply.status
        if status == 401:
            return AccessDeniedError(
                f"{self.url} refused the token, or wants one: give token=, a line of the token "
                f"file that the service was started with. It says: {detail}"
            )
        if status == 403:
            return AccessDeniedError(f"{self.url} does not permit this: {detail}")
        if reply.doubtful:
            detail += (
                " The answer to an earlier attempt was lost, which may have done this already: "
                "look before you send it again."
            )
        if status == _OTHER_INSTANCE:
            return ServiceError(f"{self.url}: {detail}", maybe_done=reply.doubtful)
        named = error_named(problem.get("error"), detail)
        if isinstance(named, _OF_MACHINE):
            return type(named)(f"on the machine of {self.url}: {named}")
        if named is not None:
            return named
        if 400 <= status < 500:
            return InvalidInputError(detail)
        request_id = reply.headers.get("x-request-id")
        which = f", request {shown(request_id)}" if request_id else ""
        maybe_done = reply.doubtful or status >= 500
        return ServiceError(f"{self.url} failed (status {status}{which}): {detail}", maybe_done)

    def _not_a_service(self, reply: ServiceReply) -> ServiceError:
        if 300 <= reply.status < 400:
            place = shown(reply.headers.get("location", "nowhere"))
            return ServiceError(f"{self.url} sends elsewhere, to {place}. Give that as url.")
        kind = reply.content_type or "nothing"
        return ServiceError(
            f"{self.url} does not answer as a bitkin service does: status {reply.status}, {kind}. "
            "Give the url that `bitkin serve` printed, or that of the proxy before it.",
            maybe_done=reply.doubtful or reply.status >= 500,
        )


_LIMITS = {"body", "hits", "queries", "rows"}  # that must be there


def plain_values(value: Any) -> Any:
    """Return what JSON does not know as what it does: for values of a checked `where`."""
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise InvalidInputError(f"where must hold what JSON holds, got {shown(value)}.")
