"""What flows and those who run them say to each other: requests and pauses in one direction,
replies and lost answers in the other.

A flow knows no sockets, and waits for nothing by itself. So one flow serves the sync and the async
client, and in a test the test is the service.
"""

from __future__ import annotations

import importlib
import json
import secrets
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from bitkin._version import __version__
from bitkin.errors import MissingExtraError
from bitkin.wire import JSON_TYPE, PROBLEM_TYPE

T = TypeVar("T")


class AnswerSink(Protocol):
    """Takes the body of an answer piece by piece, where it may be larger than memory."""

    def begin(self, headers: Mapping[str, str]) -> None:
        """Take what stands before the body, and forget what an earlier attempt brought."""

    def write(self, piece: bytes) -> None:
        """Take the next piece."""


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """One request to a service."""

    method: str
    path: str
    """Behind the url of the service, such as "/v1/search", with the query."""
    content: bytes | None = None
    repeats: Literal["always", "keyed"] = "always"
    """"always" where it does the same however often it arrives; "keyed" where the service must know
    it again by its key.
    """
    headers: Mapping[str, str] = field(default_factory=dict)
    takes_long: bool = False
    """Whether the answer is waited for without a limit: the service works as long as it takes."""
    sink: AnswerSink | None = None

    def with_key(self, instance: str | None) -> ServiceRequest:
        """Return the request with a key by which the running `instance` of a service knows it
        again, None where that knows no keys.
        """
        key = {"Idempotency-Key": secrets.token_hex(16)}
        if instance is not None:
            key["Idempotency-Instance"] = instance
        return replace(self, headers={**self.headers, **key})

    @property
    def may_repeat(self) -> bool:
        """Whether it may be sent again when it may have arrived before."""
        return self.repeats == "always" or "Idempotency-Instance" in self.headers


@dataclass(frozen=True, slots=True)
class ServiceReply:
    """What a service answered."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case, if it is no mapping that knows better."""
    content: bytes = b""
    doubtful: bool = False
    """Whether an earlier attempt, whose answer was lost, may have arrived."""

    @property
    def content_type(self) -> str:
        """The media type, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def problem(self) -> dict[str, Any]:
        """What is wrong, as a service of ours says it; empty where it says nothing of the kind."""
        if self.content_type not in (PROBLEM_TYPE, JSON_TYPE):
            return {}
        try:
            found = json.loads(self.content)
        except ValueError:
            return {}
        return found if isinstance(found, dict) and isinstance(found.get("detail"), str) else {}


@dataclass(frozen=True, slots=True)
class LostAnswer:
    """What came in the place of an answer."""

    reason: str
    """In words, for a message."""
    arrived: bool
    """Whether the request may have arrived all the same."""
    hopeless: bool = False
    """Whether another attempt would end the same way."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait before the next request."""

    seconds: float


Flow: TypeAlias = Generator[ServiceRequest | Pause, ServiceReply | LostAnswer | None, T]
"""Yields what is to be done, is sent what came of it (None after a pause), and returns a result."""


def load_httpx() -> Any:
    """Import what sends requests, or say how to get it."""
    try:
        return importlib.import_module("httpx")
    except ImportError:
        raise MissingExtraError(
            "A client needs httpx, which is not installed: pip install 'bitkin[client]'"
        ) from None


def headers_of_client(token: str | None) -> dict[str, str]:
    """Return the headers that all requests of a client have."""
    headers = {"User-Agent": f"bitkin/{__version__}"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return headers


def headers_of_request(request: ServiceRequest) -> dict[str, str]:
    """Return the headers of one request."""
    kind = {} if request.content is None else {"Content-Type": JSON_TYPE}
    return {**kind, **request.headers}


def lost_answer(error: Exception, timeout: float | None) -> LostAnswer:
    """Return what an error of httpx means. Its own text is used only where it can hold nothing
    that the request held.
    """
    httpx = load_httpx()
    waited = "" if timeout is None else f" within {timeout:g} seconds"
    if isinstance(error, httpx.ConnectTimeout):
        return LostAnswer(f"it did not take the connection{waited}", arrived=False)
    if isinstance(error, httpx.PoolTimeout):
        return LostAnswer(f"no connection became free{waited}", arrived=False)
    if isinstance(error, httpx.ConnectError):
        return _refused(str(error))
    if isinstance(error, httpx.ProxyError):
        return LostAnswer("the proxy on the way refused", arrived=False)
    if isinstance(error, httpx.ReadTimeout):
        return LostAnswer(f"it did not answer{waited}", arrived=True)
    if isinstance(error, httpx.WriteTimeout):
        return LostAnswer(f"it did not take the request{waited}", arrived=True)
    if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
        return LostAnswer("the request cannot be sent", arrived=False, hopeless=True)
    return LostAnswer("the connection broke off before the answer was here", arrived=True)


def _refused(text: str) -> LostAnswer:
    if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER_FAILURE" in text:
        reason = "it does not speak https there. Did you mean http://"
        return LostAnswer(reason, arrived=False, hopeless=True)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        detail = text.partition("verify failed:")[2].partition("(")[0].strip() or "not trusted"
        reason = f"its certificate is refused: {detail}. Give verify=, an ssl.SSLContext that"
        return LostAnswer(f"{reason} trusts it", arrived=False, hopeless=True)
    if "Name or service not known" in text or "nodename nor servname" in text:
        return LostAnswer("no machine of that name is known", arrived=False, hopeless=True)
    if "refused" in text or "All connection attempts failed" in text:
        return LostAnswer("nothing answers there", arrived=False)
    return LostAnswer(f"no connection can be made ({text or 'no reason given'})", arrived=False)
