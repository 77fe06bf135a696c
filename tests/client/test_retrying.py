"""Requests are sent again where that does nothing twice. Flows are driven by hand: none waits."""

from __future__ import annotations

import datetime
from collections.abc import Generator
from email.utils import format_datetime
from typing import Any

import pytest

from bitkin.client import retrying
from bitkin.client.messages import LostAnswer, Pause, ServiceReply, ServiceRequest
from bitkin.client.retrying import RetryPolicy, exchange
from bitkin.errors import ServiceError

URL = "http://there:8000"
GOOD = ServiceReply(200, {"content-type": "application/json"}, b"{}")
UNSENT = LostAnswer("nothing answers there", arrived=False)
LOST = LostAnswer("the connection broke off", arrived=True)
READ = ServiceRequest("GET", "/v1/stats")
KEYED = ServiceRequest("POST", "/v1/learn", b"{}", repeats="keyed")


def put_off(status: int, **headers: str) -> ServiceReply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ServiceReply(status, named, b"")


def drive(request: ServiceRequest, answers: list[Any], **policy: Any) -> tuple[Any, list[float]]:
    """What comes of a request that is answered so, and the pauses before it."""
    flow: Generator[Any, Any, ServiceReply] = exchange(request, URL, RetryPolicy(**policy))
    pauses = []
    step = next(flow)
    try:
        while True:
            if isinstance(step, Pause):
                pauses.append(step.seconds)
                step = flow.send(None)
            else:
                assert step is request
                step = flow.send(answers.pop(0))
    except StopIteration as end:
        return end.value, pauses


@pytest.mark.parametrize("failure", [UNSENT, put_off(429), put_off(503), put_off(408)])
@pytest.mark.parametrize("request_", [READ, KEYED], ids=["read", "keyed"])
def test_what_did_nothing_is_sent_again_whatever_it_is(
    request_: ServiceRequest, failure: Any
) -> None:
    reply, pauses = drive(request_, [failure, failure, GOOD])
    assert reply == GOOD
    assert len(pauses) == 2


@pytest.mark.parametrize("failure", [LOST, put_off(502), put_off(504)])
def test_what_may_have_arrived_is_sent_again_where_it_may_be(failure: Any) -> None:
    reply, _ = drive(READ, [failure, GOOD])
    assert reply.doubtful
    reply, _ = drive(KEYED.with_key("i" * 32), [failure, GOOD])
    assert reply.doubtful
    for unknown in (KEYED, KEYED.with_key(None)):
        with pytest.raises(ServiceError, match="It may have been done all the same") as caught:
            drive(unknown, [failure, GOOD])
        assert caught.value.maybe_done


def test_a_retry_has_the_same_key_and_the_same_body() -> None:
    request = KEYED.with_key("i" * 32)
    drive(request, [LOST, LOST, GOOD])  # which asserts that it is the same object
    assert len(request.headers["Idempotency-Key"]) == 32
    assert request.headers["Idempotency-Key"] != KEYED.with_key("i").headers["Idempotency-Key"]


def test_pauses_grow_and_are_not_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "_FIRST_PAUSE", 0.25)
    seen = set()
    for _ in range(5):
        _, pauses = drive(READ, [UNSENT] * 8 + [GOOD], retries=8, deadline=1e6)
        seen.add(tuple(pauses))
        for attempt, pause in enumerate(pauses):
            longest = min(8.0, 0.25 * 2**attempt)
            assert longest / 2 <= pause <= longest
    assert len(seen) == 5


def test_retry_after_is_waited_for_in_seconds_or_until_a_date() -> None:
    _, [pause] = drive(READ, [put_off(429, retry_after="3"), GOOD])
    assert pause == 3.0
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=60)
    _, [pause] = drive(READ, [put_off(503, retry_after=format_datetime(soon)), GOOD])
    assert 50 < pause <= 60
    for nonsense in ("", "soon", "-3", "1e9", "²"):
        _, [pause] = drive(READ, [put_off(503, retry_after=nonsense), GOOD])
        assert pause < 1


def test_nothing_is_sent_after_the_deadline() -> None:
    with pytest.raises(ServiceError, match="has no time"):
        drive(READ, [put_off(503, retry_after="300"), GOOD])
    _, [pause] = drive(READ, [put_off(503, retry_after="300"), GOOD], deadline=1000)
    assert pause == 300


def test_the_number_of_retries_is_kept() -> None:
    with pytest.raises(ServiceError, match=r"cannot be reached.*\(3 attempts\)"):
        drive(READ, [UNSENT, UNSENT, UNSENT, GOOD], retries=2)
    with pytest.raises(ServiceError, match=r"nothing answers there. Is the service"):
        drive(READ, [UNSENT, GOOD], retries=0)


def test_what_is_hopeless_is_not_tried_again() -> None:
    with pytest.raises(ServiceError, match=r"no machine of that name is known.$"):
        drive(READ, [LostAnswer("no machine of that name is known", False, hopeless=True)])


@pytest.mark.parametrize("status", [200, 201, 204, 400, 401, 404, 409, 412, 413, 422, 500, 501])
def test_an_answer_that_is_final_is_given_back(status: int) -> None:
    reply, pauses = drive(READ, [put_off(status)])
    assert reply.status == status
    assert not pauses


def test_a_503_with_the_name_of_an_error_is_final() -> None:
    named = b'{"detail": "x is there already.", "error": "FileAccessError"}'
    kind = {"content-type": "application/problem+json"}
    reply, _ = drive(READ, [ServiceReply(503, kind, named)])
    assert reply.status == 503


def test_a_lost_answer_to_a_read_says_nothing_of_something_done() -> None:
    with pytest.raises(ServiceError) as caught:
        drive(READ, [LOST] * 5)
    assert not caught.value.maybe_done
    assert "all the same" not in str(caught.value)


def test_the_words_of_a_service_that_has_no_time_are_passed_on() -> None:
    busy = b'{"detail": "1,000 searches are waiting already."}'
    kind = {"content-type": "application/problem+json"}
    with pytest.raises(ServiceError, match="1,000 searches are waiting"):
        drive(READ, [ServiceReply(429, kind, busy)] * 5)
