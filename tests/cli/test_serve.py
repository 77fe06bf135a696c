"""`bitkin serve` and `bitkin demo --serve`: started as anybody would, asked, and ended."""

from __future__ import annotations

import importlib
import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.cli.showing.served_demo import collect_images
from tests.cli.conftest import Run
from tests.cli.test_failures import require_failure, require_usage_error
from tests.service.process import served

TOKEN = "writer-0123456789"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    X = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
    with bitkin.Collection.create(tmp_path / "notes", bitkin.ProjectionHash(8).fit(X)) as made:
        made.add(X)
    return tmp_path / "notes"


def test_a_folder_is_served_until_it_is_told_to_end(notes: Path) -> None:
    with served("serve", notes, "--log", "json", "--max-k", 5) as service:
        assert service.ask("/v1/count") == {"count": 40}
        assert service.ask("/v1/items", {"vectors": [[0.5] * 8]}) == {"ids": [40]}
        refused = service.ask("/v1/search", {"ids": [7], "k": 6})
        assert (refused["field"], refused["status"]) == ("k", 422)
        with pytest.raises(bitkin.errors.FileAccessError, match="open for writing already"):
            bitkin.Collection.open(notes)
        code, err = service.end(signal.SIGTERM)
    assert code == 0
    lines = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert [line["status"] for line in lines] == [200, 201, 422]
    with bitkin.Collection.open(notes) as again:
        assert len(again) == 41


def test_ctrl_c_ends_it_without_a_word(notes: Path) -> None:
    with served("serve", notes, "--log", "none", "--read-only") as service:
        assert service.ask("/v1/service")["read_only"] is True
        assert service.ask("/v1/items", {"vectors": [[0.5] * 8]})["status"] == 403
        assert service.end(signal.SIGINT) == (0, "")


def test_a_folder_of_several_with_tokens(notes: Path) -> None:
    tokens = notes.parent / "tokens.txt"
    tokens.write_text(f"write {TOKEN}\nread reader-0123456789\n")
    tokens.chmod(0o600)
    home = notes.parent / "home"
    home.mkdir()
    notes.rename(home / "notes")
    with served("serve", home, "--token-file", tokens, "--embed", "hash:32") as service:
        assert service.ask("/v1/service")["status"] == 401
        assert service.ask("/v1/service", token=TOKEN)["several"] is True
        body = {"name": "tales", "embed": True}
        assert service.ask("/v1/collections", body, "reader-0123456789")["status"] == 403
        assert service.ask("/v1/collections", body, TOKEN)["embed"] == "hash:32"
        _, err = service.end(signal.SIGTERM)
    assert TOKEN not in err
    assert (home / "tales" / "collection.db").is_file()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_other_machines_need_a_token(notes: Path, run: Run, host: str) -> None:
    done = run("serve", notes, "--host", host)
    require_usage_error(done, f"{host} can be reached from other machines", "--token-file")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--max-body", "0"), "'--max-body': must be bytes, such as 512k, 64m or 1g, got '0'"),
        (("--max-body", "many"), "must be bytes"),
        (("--log", "xml"), "--log"),
        (("--port", "70000"), "--port"),
        (("--max-k", "0"), "--max-k"),
        (("--threads", "0"), "--threads"),
    ],
)
def test_wrong_options_are_usage_errors(
    notes: Path, run: Run, arguments: tuple[str, ...], words: str
) -> None:
    require_usage_error(run("serve", notes, *arguments), words)


def test_what_cannot_be_served_is_said_in_one_line(notes: Path, run: Run) -> None:
    require_failure(run("serve", notes / "nothing"), "nothing is not there. Give the folder")
    require_failure(run("serve", notes, "--token-file", notes / "x"), "cannot be read")
    require_failure(run("serve", notes, "--backups", notes / "x"), "is no folder")
    (notes.parent / "tokens").write_text("write short")
    done = run("serve", notes, "--token-file", notes.parent / "tokens")
    require_failure(done, "at least 16 characters")
    assert "short" not in done.err
    with bitkin.Collection.open(notes):
        require_failure(run("serve", notes), "is open for writing already")
    with served("serve", notes) as service:
        port = service.url.rpartition(":")[2]
        other = notes.parent / "other"
        other.mkdir()
        done = run("serve", other, "--port", port)
        require_failure(done, f"127.0.0.1:{port} cannot be listened to: Address already in use")


def test_what_is_not_installed_is_named(
    notes: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str, *rest: Any) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name="fastapi")

    monkeypatch.setattr(importlib, "import_module", absent)
    done = run("serve", notes)
    require_failure(done, "bitkin serve needs fastapi", "pip install 'bitkin[service]'")


def test_the_demo_serves_pictures_with_their_kinds() -> None:
    seen: list[int] = []
    images = collect_images(seen.append)
    assert (len(images), seen[-1]) == (10_000, 10_000)
    [about] = images.get([0]).metadata or []
    assert about["kind"] == "ankle boot"
    assert about["image"].startswith("data:image/png;base64,")
    assert images.count({"kind": "bag"}) > 900


def test_the_demo_is_a_service_too() -> None:
    with served("demo", "--serve", "--no-browser") as service:
        assert service.ask("/v1/collections/fashion/count") == {"count": 10_000}
