"""Sending a request again where that is safe: what failed before it arrived, what the service put
off, and what may be done twice.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from bitkin.client.messages import Flow, LostAnswer, Pause, ServiceReply, ServiceRequest
from bitkin.errors import ServiceError

_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 8.0  # seconds
_PUT_OFF = (408, 429, 503)  # nothing was done
_FATE_UNKNOWN = (502, 504)  # said by a proxy, or by a service whose time was over


class RetryPolicy(NamedTuple):
    """How often, and for how long, a request is sent again."""

    retries: int = 4
    deadline: float = 120.0
    """Seconds after which no other attempt begins."""


def exchange(request: ServiceRequest, url: str, policy: RetryPolicy) -> Flow[ServiceReply]:
    """Send a request until there is an answer that is final, and return that; raise ServiceError
    where there is none.
    """
    begun = time.monotonic()
    doubtful = False
    attempts = 0
    while True:
        answer = yield request
        attempts += 1
        pause = 0.0
        if isinstance(answer, ServiceReply):
            if not _is_passing(answer):
                return replace(answer, doubtful=doubtful)
            doubtful = doubtful or answer.status in _FATE_UNKNOWN
            pause = _seconds_to_wait(answer.headers)
        elif isinstance(answer, LostAnswer):
            doubtful = doubtful or answer.arrived
        else:
            raise RuntimeError(f"a request was answered by {answer!r}")
        pause = max(pause, _backoff(attempts))
        late = time.monotonic() - begun + pause > policy.deadline
        if (
            attempts > policy.retries
            or late
            or (doubtful and not request.may_repeat)
            or (isinstance(answer, LostAnswer) and answer.hopeless)
        ):
            raise _no_answer(request, url, answer, attempts, doubtful)
        yield Pause(pause)


def _is_passing(reply: ServiceReply) -> bool:
    """Tell whether a later attempt may be answered otherwise. A failure that has a name, such as
    that of a file, is the answer.
    """
    if reply.status in _FATE_UNKNOWN:
        return True
    return reply.status in _PUT_OFF and "error" not in reply.problem


def _backoff(attempts: int) -> float:
    """Return seconds to wait, twice as many after every attempt, and up to half of them less by
    chance: clients that failed together do not come back together.
    """
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (attempts - 1))
    return longest * (1.0 - random.random() / 2)


def _seconds_to_wait(headers: Mapping[str, str]) -> float:
    """Return what Retry-After asks for, in seconds or as a date; 0 where it says nothing."""
    text = headers.get("retry-after", "").strip()
    if text.isdecimal() and text.isascii():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _no_answer(
    request: ServiceRequest,
    url: str,
    answer: ServiceReply | LostAnswer,
    attempts: int,
    doubtful: bool,
) -> ServiceError:
    tried = "" if attempts == 1 else f" ({attempts} attempts)"
    fate = ""
    if doubtful and request.method != "GET":
        fate = " It may have been done all the same: the answer was lost."
    maybe_done = bool(fate)
    if isinstance(answer, LostAnswer):
        if answer.arrived:
            return ServiceError(f"no answer from {url}: {answer.reason}{tried}.{fate}", maybe_done)
        advice = "" if answer.hopeless else " Is the service running (bitkin serve), and url right?"
        return ServiceError(
            f"{url} cannot be reached: {answer.reason}{tried}.{advice}{fate}", maybe_done
        )
    detail = answer.problem.get("detail") or f"status {answer.status}"
    return ServiceError(f"{url} has no time, or is ending{tried}: {detail}{fate}", maybe_done)
