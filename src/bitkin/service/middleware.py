"""What happens to every request: an id, a line in the log, a count, and headers that keep browsers
from doing harm.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import re
import secrets
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bitkin.service.observed.metrics import ServiceMetrics
from bitkin.service.problems import FAULT, problem
from bitkin.service.tokens import Tokens

logger = logging.getLogger("bitkin.service.requests")
faults = logging.getLogger("bitkin.service")

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")
_SHOWN_OF_PATH = 200
_UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: https: http:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_LOOPBACK_NAMES = frozenset({"localhost", "testserver"})


class RequestGuard:
    """Wraps an app, and sees every request and answer.

    Parameters
    ----------
    app : ASGI app
    metrics : ServiceMetrics
    tokens : Tokens
        Which stand in no error and no line of the log, wherever a request had them.
    own_names : bool
        Answer under names of this machine alone. Where no token is needed, a page of another site
        could else do everything, through the browser of somebody here, by a name that leads here.
    """

    def __init__(
        self, app: ASGIApp, metrics: ServiceMetrics, tokens: Tokens, *, own_names: bool
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._tokens = tokens
        self._own_names = own_names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        fits = _REQUEST_ID.fullmatch(given) and self._hide(given) == given
        name = given if fits else secrets.token_hex(8).encode()
        seen = _Seen(scope, name.decode(), self._tokens)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.status = message["status"]
                own = list(message.get("headers", []))
                message["headers"] = [*own, (b"x-request-id", name), *_HEADERS]
            elif message["type"] == "http.response.body":
                seen.bytes_out += len(message.get("body", b""))
                if seen.status is not None and seen.status >= 400:
                    message = {**message, "body": self._hide(message.get("body", b""))}
            await send(message)

        self._metrics.under_way.inc()
        try:
            refusal = self._refuse(scope["method"], headers)
            app: ASGIApp = self._app if refusal is None else refusal
            await app(scope, receive, send_with_headers)
        except Exception as error:  # whatever it is, the sender and the log are told
            if seen.status is not None:
                raise
            faults.error(
                "a fault of the service",
                exc_info=error,
                extra={"fields": {"request_id": seen.name, "path": seen.path}},
            )
            answer = problem(500, FAULT, error=type(error).__name__)
            await answer(scope, receive, send_with_headers)
        finally:
            self._metrics.under_way.dec()
            self._note(seen)

    def _refuse(self, method: str, headers: dict[bytes, bytes]) -> Any:
        """Return an answer to what a page of another site made a browser send, None for others."""
        host = headers.get(b"host", b"").decode("latin-1")
        if self._own_names and not _is_own_name(host):
            return problem(
                421,
                f"this service has no token, and answers to names of this machine alone, such as "
                f"127.0.0.1 or localhost, not to {host[:80]!r}. Start it with --token-file.",
            )
        origin = headers.get(b"origin", b"").decode("latin-1")
        # "null" is what frames in a sandbox and files on a disk say
        foreign = origin != "" and origin.partition("://")[2] != host
        site = headers.get(b"sec-fetch-site", b"none")
        if method in _UNSAFE and (foreign or site not in (b"none", b"same-origin")):
            return problem(403, "pages of other sites may not change anything here.")
        return None

    def _hide(self, data: bytes) -> bytes:
        return self._tokens.hide(data.decode("latin-1")).encode("latin-1")

    def _note(self, seen: _Seen) -> None:
        seconds = time.perf_counter() - seen.since
        route = _route_of(seen.scope)
        method = seen.scope["method"]
        method = method if method in _UNSAFE or method in ("GET", "HEAD", "OPTIONS") else "other"
        status = 500 if seen.status is None else seen.status
        self._metrics.requests.labels(method, route, str(status)).inc()
        self._metrics.seconds.labels(method, route).observe(seconds)
        client = seen.scope.get("client")
        logger.info(
            "request",
            extra={
                "fields": {
                    "request_id": seen.name,
                    "method": method,
                    "path": seen.path,
                    "status": status,
                    "ms": round(1000 * seconds, 2),
                    "bytes_out": seen.bytes_out,
                    "client": None if client is None else client[0],
                }
            },
        )


def _route_of(scope: Scope) -> str:
    """Return the pattern of the address, whatever the router that was included says of it."""
    inner = str(getattr(scope.get("route"), "path", "none"))
    if inner.startswith("/v1") or not scope["path"].startswith("/v1/") or inner == "none":
        return inner
    named = scope["path"].startswith("/v1/collections/") and not inner.startswith("/collections")
    return f"/v1/collections/{{name}}{inner}" if named else f"/v1{inner}"


class _Seen:
    """What is known of a request when it has been answered."""

    def __init__(self, scope: Scope, name: str, tokens: Tokens) -> None:
        self.scope = scope
        self.name = name
        # never the query: it may hold what people look for
        self.path = tokens.hide(scope["path"][: 2 * _SHOWN_OF_PATH])[:_SHOWN_OF_PATH]
        self.since = time.perf_counter()
        self.status: int | None = None
        self.bytes_out = 0


class HidingLines(logging.Formatter):
    """Lines of a log in which no token stands."""

    def __init__(self, tokens: Tokens | None = None) -> None:
        super().__init__()
        self._tokens = tokens or Tokens()

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line = self.line_of(record)
        # of requests there is nothing but what was hidden already
        return line if record.name == logger.name else self._tokens.hide(line)

    def line_of(self, record: logging.LogRecord) -> str:
        """Return the line as it would be without tokens."""
        return super().format(record)


class JsonLogLines(HidingLines):
    """A JSON object a line: time, level, message, and the fields of a request."""

    def line_of(self, record: logging.LogRecord) -> str:
        """Return the line as it would be without tokens."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class PlainLogLines(HidingLines):
    """What a person reads: the request, its status and its time."""

    def line_of(self, record: logging.LogRecord) -> str:
        """Return the line as it would be without tokens."""
        fields = getattr(record, "fields", None)
        if fields is None:
            return f"bitkin: {super().line_of(record)}"
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        path = json.dumps(fields["path"])[1:-1]  # nothing that steers a terminal
        return f"{at} {fields['status']} {fields['method']:6} {path} {fields['ms']:.1f} ms"


def _is_own_name(host: str) -> bool:
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    name = name.strip("[]").lower()
    if name in _LOOPBACK_NAMES or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
