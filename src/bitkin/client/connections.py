"""How a client reaches a service: its address and other settings, checked once, and connections."""

from __future__ import annotations

import importlib
import os
import re
import ssl
import threading
import time
from contextlib import aclosing, closing
from typing import Any, cast
from urllib.parse import urlsplit

from bitkin.checks import is_number, shown, whole_number
from bitkin.client.messages import (
    Flow,
    LostAnswer,
    Pause,
    ServiceReply,
    ServiceRequest,
    T,
    headers_of_client,
    headers_of_request,
    load_httpx,
    lost_answer,
)
from bitkin.client.retrying import RetryPolicy
from bitkin.errors import InvalidInputError

_TOKEN = re.compile(r"[\x21-\x7e]+")


class ClientSettings:
    """How a client reaches a service, checked once. Neither printed nor part of a message: the
    token is in it.
    """

    def __init__(
        self, url: Any, token: Any, timeout: Any, retries: Any, deadline: Any, verify: Any
    ) -> None:
        self.url = check_url(url)
        self.token = check_token(token)
        self.timeout = None if timeout is None else _seconds(timeout, "timeout")
        self.policy = RetryPolicy(
            whole_number(retries, "retries", low=0), _seconds(deadline, "deadline")
        )
        if not isinstance(verify, bool | ssl.SSLContext):
            raise InvalidInputError(
                f"verify must be True, False or an ssl.SSLContext, got {shown(verify)}. For a "
                "certificate of your own: ssl.create_default_context(cafile=...)."
            )
        self.verify = verify

    def __repr__(self) -> str:
        return f"ClientSettings({self.url!r})"

    def arguments(self) -> dict[str, Any]:
        """Return what a client is made of again; raise where that cannot be pickled."""
        if not isinstance(self.verify, bool):
            raise InvalidInputError(
                "a client with an ssl.SSLContext cannot be pickled or copied. Make another one "
                "where it is needed."
            )
        return {
            "url": self.url,
            "token": self.token,
            "timeout": self.timeout,
            "retries": self.policy.retries,
            "deadline": self.policy.deadline,
            "verify": self.verify,
        }

    def for_httpx(self) -> dict[str, Any]:
        """Return the arguments of a client of httpx."""
        return {
            "headers": headers_of_client(self.token),
            "timeout": self.timeout,
            "verify": self.verify,
            "follow_redirects": False,  # the token goes where it was meant to, and nowhere else
        }

    def of_request(self, request: ServiceRequest) -> dict[str, Any]:
        """Return the arguments of a request of httpx."""
        timeout: Any = self.timeout
        if request.takes_long:
            timeout = load_httpx().Timeout(self.timeout, read=None)
        return {
            "method": request.method,
            "url": self.url + request.path,
            "content": request.content,
            "headers": headers_of_request(request),
            "timeout": timeout,
        }


def _seconds(value: Any, name: str) -> float:
    if not is_number(value) or not 0 < value < float("inf"):
        raise InvalidInputError(f"{name} must be a number of seconds above 0, got {shown(value)}.")
    return float(value)


def check_url(url: Any) -> str:
    """Return the address of a service without a slash at its end; raise for what is none. What
    could be a password is never shown.
    """
    if not isinstance(url, str) or not url:
        raise InvalidInputError(
            f"url must be the address of a service, such as 'http://localhost:8000', got "
            f"{shown(url)}."
        )
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InvalidInputError("url must be an address, with a port from 0 to 65535.") from None
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidInputError(
            "url must hold no user, password, query or fragment: give the token as token=."
        )
    if re.search(r"[\s\x00-\x20\x7f]", url):
        raise InvalidInputError(f"url must hold no spaces, got {shown(url)}.")
    if parts.scheme not in ("http", "https") or not host:
        bare = url.split("://", 1)[-1].strip("/")
        meant = f" Did you mean {shown('http://' + bare)}?" if bare else ""
        raise InvalidInputError(
            f"url must begin with http:// or https:// and name a machine, got {shown(url)}.{meant}"
        )
    before, versioned, rest = parts.path.rstrip("/").partition("/v1")
    if versioned and (not rest or rest.startswith("/")):
        base = f"{parts.scheme}://{parts.netloc}{before}"
        name = re.fullmatch(r"/collections/([^/]+)", rest)
        more = f" and collection={name[1]!r}" if name else ""
        raise InvalidInputError(
            f"url must be that of the service, without {shown('/v1' + rest)}: give {shown(base)}"
            f"{more}."
        )
    return url.rstrip("/")


def check_token(token: Any) -> str | None:
    """Return a token that can be sent, and show none that cannot."""
    if token is not None and not (isinstance(token, str) and _TOKEN.fullmatch(token)):
        raise InvalidInputError(
            "token must be visible characters of ASCII, without spaces and ends of lines, got "
            f"another {type(token).__name__}: strip what was read from a file."
        )
    return token


def check_name(name: Any, argument: str = "name") -> str:
    """Return the name of a collection, which is one step of an address."""
    if not isinstance(name, str) or not name or "/" in name or name in (".", ".."):
        raise InvalidInputError(f"{argument} must be the name of a collection, got {shown(name)}.")
    return name


class _AnyConnections:
    """What connections of both kinds know."""

    def __init__(self, settings: ClientSettings, transport: Any) -> None:
        self.settings = settings
        self.transport = transport
        self._httpx = load_httpx()
        self._http: Any = None
        self._process = 0
        self._closed = False
        self._opening = threading.Lock()

    def arguments(self) -> dict[str, Any]:
        """Return what a client on connections like these is made of; raise where that cannot be
        pickled.
        """
        if self.transport is not None:
            raise InvalidInputError(
                "a client with a transport cannot be pickled or copied. Make another one where it "
                "is needed."
            )
        return self.settings.arguments()


class Connections(_AnyConnections):
    """Connections to a service, which clients of several collections share."""

    def run(self, flow: Flow[T]) -> T:
        """Do what a flow asks for, and return its result."""
        with closing(flow):
            try:
                step = next(flow)
                while True:
                    step = flow.send(self._do(step))
            except StopIteration as end:
                return cast(T, end.value)

    def _do(self, step: ServiceRequest | Pause) -> ServiceReply | LostAnswer | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        http = self._open()
        request = http.build_request(**self.settings.of_request(step))
        try:
            response = http.send(request, stream=True)
            with closing(response):
                if step.sink is None or response.status_code != 200:
                    content = response.read()
                else:
                    content = b""
                    step.sink.begin(response.headers)
                    for piece in response.iter_bytes():
                        step.sink.write(piece)
        except self._httpx.RequestError as error:
            return lost_answer(error, self.settings.timeout)
        return ServiceReply(response.status_code, response.headers, content)

    def close(self) -> None:
        """Close all of them."""
        self._closed = True
        if self._http is not None and self._process == os.getpid():
            self._http.close()

    def _open(self) -> Any:
        if self._closed:
            raise closed_client()
        with self._opening:
            if self._process != os.getpid():  # a forked process needs connections of its own
                settings = self.settings.for_httpx()
                self._http = self._httpx.Client(**settings, transport=self.transport)
                self._process = os.getpid()
            return self._http


class AsyncConnections(_AnyConnections):
    """What `Connections` are, for whoever must not wait."""

    async def run(self, flow: Flow[T]) -> T:
        """Do what a flow asks for, and return its result."""
        with closing(flow):
            try:
                step = next(flow)
                while True:
                    step = flow.send(await self._do(step))
            except StopIteration as end:
                return cast(T, end.value)

    async def _do(self, step: ServiceRequest | Pause) -> ServiceReply | LostAnswer | None:
        if isinstance(step, Pause):
            await _anyio().sleep(step.seconds)
            return None
        http = self._open()
        request = http.build_request(**self.settings.of_request(step))
        try:
            response = await http.send(request, stream=True)
            async with aclosing(response):
                if step.sink is None or response.status_code != 200:
                    content = await response.aread()
                else:
                    content = b""
                    step.sink.begin(response.headers)
                    async for piece in response.aiter_bytes():
                        step.sink.write(piece)
        except self._httpx.RequestError as error:
            return lost_answer(error, self.settings.timeout)
        return ServiceReply(response.status_code, response.headers, content)

    async def close(self) -> None:
        """Close all of them."""
        self._closed = True
        if self._http is not None:
            await self._http.aclose()

    def _open(self) -> Any:
        if self._closed:
            raise closed_client()
        if self._http is None:
            settings = self.settings.for_httpx()
            self._http = self._httpx.AsyncClient(**settings, transport=self.transport)
        return self._http


def _anyio() -> Any:
    # which httpx needs, and which waits under trio too
    return importlib.import_module("anyio")


def closed_client() -> InvalidInputError:
    """Return the error of whoever asks a closed client."""
    return InvalidInputError("the client is closed. Make another one.")
