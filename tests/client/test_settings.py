"""How a client reaches a service: addresses, tokens, names, copies, the end of it."""

from __future__ import annotations

import copy
import pickle
import ssl
import sys
from typing import Any

import httpx
import pytest

import bitkin
from bitkin.client.remote import RemoteCollection
from bitkin.errors import InvalidInputError, MissingExtraError
from tests.client.services import Script

URL = "http://there:8000"
SECRET = "very-secret-token-0123456789"
BOTH = pytest.mark.parametrize("kind", [bitkin.Client, bitkin.AsyncClient])


@BOTH
@pytest.mark.parametrize(
    "url, words",
    [
        ("localhost:8000", "must begin with http.* Did you mean 'http://localhost:8000'"),
        ("there", "Did you mean 'http://there'"),
        ("ftp://there:21", "must begin with http.* Did you mean 'http://there:21'"),
        ("http://", "name a machine"),
        ("", "must be the address of a service"),
        (None, "must be the address of a service.*None"),
        (8000, "must be the address of a service.*8000"),
        ("http://there:99999", "port from 0 to 65535"),
        ("http://there/a b", "no spaces"),
        ("http://there\n", "no spaces"),
        ("http://there?x=1", "no user, password, query"),
        ("http://there/#x", "no user, password, query"),
        ("http://there:8000/v1", "without '/v1': give 'http://there:8000'.$"),
        (
            "http://there/proxy/v1/collections/notes/",
            "give 'http://there/proxy' and collection='notes'",
        ),
    ],
)
def test_a_wrong_url_is_refused_with_what_to_give(kind: Any, url: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        kind(url)


@BOTH
def test_a_url_with_a_password_is_refused_and_not_shown(kind: Any) -> None:
    for url in (f"http://me:{SECRET}@there", f"http://there?token={SECRET}"):
        with pytest.raises(InvalidInputError, match="give the token as token=") as caught:
            kind(url)
        assert SECRET not in str(caught.value)


@BOTH
def test_slashes_at_the_end_and_paths_of_a_proxy_are_fine(kind: Any) -> None:
    assert kind("http://there:8000///").url == "http://there:8000"
    assert kind("https://there/some/path/").url == "https://there/some/path"
    assert kind("http://v1/v1beta").url == "http://v1/v1beta"
    assert kind("http://[::1]:80").url == "http://[::1]:80"


@BOTH
@pytest.mark.parametrize("token", ["", f"{SECRET}\n", f"a {SECRET}", "gehéim", b"bytes", 5])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(kind: Any, token: Any) -> None:
    with pytest.raises(InvalidInputError, match="token must be visible characters") as caught:
        kind(URL, token)
    assert str(token or "?") not in str(caught.value)


@BOTH
@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"timeout": 0}, "timeout must be a number of seconds above 0, got 0"),
        ({"timeout": "1"}, "timeout must be a number"),
        ({"timeout": float("nan")}, "timeout must be"),
        ({"deadline": None}, "deadline must be a number"),
        ({"deadline": float("inf")}, "deadline must be"),
        ({"retries": -1}, "retries must be at least 0"),
        ({"retries": True}, "retries must be a whole number"),
        ({"verify": "cert.pem"}, "verify must be True, False or an ssl.SSLContext"),
        ({"collection": ""}, "collection must be the name"),
        ({"collection": "a/b"}, "collection must be the name of a collection, got 'a/b'"),
        ({"collection": ".."}, "collection must be the name"),
        ({"collection": 7}, "collection must be the name"),
    ],
)
def test_a_wrong_setting_is_refused_at_once(kind: Any, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        kind(URL, **wrong)


@BOTH
def test_a_client_never_shows_its_token(kind: Any) -> None:
    client = kind(URL, SECRET, collection="notes")
    texts = [repr(client), str(client), str(vars(client)), repr(client._connections.settings)]
    assert not any(SECRET in text for text in texts)
    assert repr(client) == f"{kind.__name__}('{URL}', collection='notes')"


@BOTH
def test_a_pickle_is_a_client_with_the_same_settings_and_token(kind: Any) -> None:
    client = kind(URL, SECRET, collection="notes", timeout=5, retries=1, deadline=7, verify=False)
    for other in (pickle.loads(pickle.dumps(client)), copy.copy(client), copy.deepcopy(client)):
        assert isinstance(other, kind)
        assert (other.url, other.name) == (URL, "notes")
        assert other._connections.settings.arguments() == client._connections.settings.arguments()
        assert other._connections.settings.token == SECRET
        assert other._connections is not client._connections
        assert other._runs is not client._runs  # or both would make the same ids


def test_what_cannot_be_pickled_says_so() -> None:
    with pytest.raises(InvalidInputError, match="with a transport cannot be pickled"):
        pickle.dumps(bitkin.Client(URL, transport=Script()))
    with pytest.raises(InvalidInputError, match=r"with an ssl.SSLContext cannot be pickled"):
        pickle.dumps(bitkin.Client(URL, verify=ssl.create_default_context()))


@BOTH
def test_without_httpx_there_is_the_line_that_installs_it(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'bitkin\[client\]'"):
        kind(URL)


def test_a_closed_client_says_so_and_may_be_closed_again() -> None:
    client = bitkin.Client(URL, transport=Script(count={"count": 3}))
    assert client.count() == 3
    client.close()
    client.close()
    with pytest.raises(InvalidInputError, match=r"the client is closed. Make another one"):
        client.count()
    assert "closed" in repr(client)


def test_clients_of_several_collections_share_connections() -> None:
    script = Script(collections_a_count={"count": 1}, collections_b_count={"count": 2})
    with bitkin.Client(URL, SECRET, transport=script) as client:
        a, b = client.collection("a"), client.collection("b")
        with a:
            assert (a.count(), b.count()) == (1, 2)
        assert b.count() == 2  # though a is closed
        with pytest.raises(InvalidInputError, match="closed"):
            a.count()
        assert (a.name, b.url) == ("a", URL)
    with pytest.raises(InvalidInputError, match="closed"):
        b.count()
    assert all(one.headers["authorization"] == f"Bearer {SECRET}" for one in script.asked)


def test_names_of_collections_are_written_so_that_an_address_holds_them() -> None:
    script = Script()
    script.answers = {"collections_a b?": {}, "collections_a b?_count": {"count": 4}}
    with bitkin.Client(URL, collection="a b?", transport=script) as client:
        assert client.count() == 4
    assert script.asked[0].url.raw_path == b"/v1/collections/a%20b%3F/count"


def test_nothing_is_asked_before_the_first_call() -> None:
    script = Script()
    with bitkin.Client(URL, transport=script) as client:
        client.collection("other")
        repr(client)
    assert not script.asked


def test_what_is_known_is_asked_once() -> None:
    script = Script(search={"ids": [[1]], "distances": [[0.5]], "metadata": None, "stage": "exact"})
    with bitkin.Client(URL, transport=script) as client:
        for _ in range(3):
            client.search([[1.0, 2.0, 3.0, 4.0]], 1)
    asked = [one.url.path for one in script.asked]
    assert asked.count("/v1/service") == asked.count("/v1/stats") == 1


class Forgetful(RemoteCollection):
    """Forgets what it knows after two looks at it, as if another thread called `stats` then."""

    @property
    def _service(self) -> Any:
        return self._look_at("service")

    @_service.setter
    def _service(self, told: Any) -> None:
        self.__dict__["service looks"] = [told, told]

    @property
    def _about(self) -> Any:
        return self._look_at("about")

    @_about.setter
    def _about(self, told: Any) -> None:
        self.__dict__["about looks"] = [told, told]

    def _look_at(self, name: str) -> Any:
        looks = self.__dict__[f"{name} looks"]
        return looks.pop() if looks else None


def test_what_another_thread_forgets_is_still_known_to_whoever_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bitkin.client.client.RemoteCollection", Forgetful)
    script = Script(
        search={"ids": [[1]], "distances": [[0.5]], "metadata": None, "stage": "exact"},
        items_remove={"removed": 1},
    )
    with bitkin.Client(URL, transport=script) as client:
        for _ in range(3):
            assert client.search([[1.0, 2.0, 3.0, 4.0]], 1).ids.tolist() == [[1]]
            client.remove(7)
            assert client.metric == "l2"
            assert not client.read_only


def test_a_forked_process_has_connections_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    client = bitkin.Client(URL)
    before = client._connections._open()
    assert client._connections._open() is before
    monkeypatch.setattr("os.getpid", lambda: -5)
    after = client._connections._open()
    assert after is not before
    after.close()
    before.close()


def test_importing_bitkin_does_not_load_httpx() -> None:
    from tests.test_rooms import loaded_by

    assert "httpx" not in loaded_by("import bitkin")
    loaded = loaded_by("import bitkin; bitkin.Client")
    assert not loaded & {"numba", "sklearn", "fastapi", "pandas"}


def test_the_async_client_closes_at_the_end_of_its_block() -> None:
    import asyncio

    async def ask() -> bitkin.AsyncClient:
        def answer(request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, json={"count": 7})

        transport = httpx.MockTransport(answer)
        async with bitkin.AsyncClient(URL, transport=transport) as client:
            assert await client.count() == 7
            other = client.collection("b")
            async with other:
                assert await other.count() == 7
            assert await client.count() == 7
        return client

    client = asyncio.run(ask())
    with pytest.raises(InvalidInputError, match="closed"):
        asyncio.run(client.count())
