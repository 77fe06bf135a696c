"""A file under way: never taken for whole, and in the end the bytes of one that was written at
once.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin
from bitkin import Codes
from bitkin.errors import CorruptFileError, FileAccessError, InvalidInputError
from bitkin.io.partial import PartialFile
from bitkin.io.writer import write_file
from tests.interruptions import Outcomes, interrupted_at, moments_of

N_ROWS = 65
PARAMETERS = {"n_symbols": 67, "bits_per_symbol": 1}
SHAPES = {"words": (np.dtype(np.uint64), (1, 2)), "empty": (np.dtype(np.bool_), ())}
Tensors = dict[str, npt.NDArray[Any]]


def tensors(n: int = N_ROWS) -> Tensors:
    """Codes of 67 bits, some of them empty: two tensors with padding between them."""
    rng = np.random.default_rng(0)
    codes = Codes.from_symbols(rng.integers(0, 2, (n, 67)), 1, empty=rng.random(n) < 0.3)
    return {"words": codes.words, "empty": codes.empty_rows()}


def some(first: int, stop: int) -> Tensors:
    return {name: rows[first:stop] for name, rows in tensors().items()}


def begin(path: Path, *, n: int = N_ROWS, work: Any = "this", fresh: bool = False) -> PartialFile:
    return PartialFile(path, "Codes", PARAMETERS, "a" * 32, SHAPES, n, {"work": work}, fresh=fresh)


def write_whole(path: Path, n: int = N_ROWS) -> bytes:
    write_file(path, "Codes", PARAMETERS, "a" * 32, tensors(n))
    return path.read_bytes()


def interrupted(path: Path, checkpointed: int, lost: int = 0, work: Any = "this") -> None:
    """Leave a file under way with so many rows that are sure, and some after them that are not."""
    with begin(path, work=work) as partial:
        partial.append(some(0, checkpointed))
        partial.checkpoint()
        if lost:
            partial.append(some(checkpointed, checkpointed + lost))


def go_on(path: Path, **options: Any) -> int:
    """Take the work up, finish it, and return the row it began with."""
    with begin(path, **options) as partial:
        begun = partial.rows_done
        partial.append(some(begun, N_ROWS))
        partial.finish()
    return begun


def beside(path: Path) -> set[str]:
    return {other.name for other in path.parent.iterdir()} - {path.name}


@pytest.mark.parametrize("n", [0, 1, 7, 63, 64, 65])
def test_rows_appended_one_by_one_make_the_file_that_is_written_at_once(
    tmp_path: Path, n: int
) -> None:
    expected = write_whole(tmp_path / "whole", n)
    all_rows = tensors(n)
    with begin(tmp_path / "codes", n=n) as partial:
        for i in range(n):
            partial.append({name: rows[i : i + 1] for name, rows in all_rows.items()})
        partial.finish()
    assert (tmp_path / "codes").read_bytes() == expected
    assert len(bitkin.load(tmp_path / "codes")) == n
    assert beside(tmp_path / "codes") == {"whole"}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 40),
            st.sampled_from(["go on", "checkpoint", "stop", "stop after checkpoint"]),
        )
    )
)
def test_any_interruptions_at_any_rows_give_the_same_bytes(steps: list[tuple[int, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codes"
        expected = write_whole(Path(folder) / "whole")
        partial = begin(path)
        for count, then in steps:
            done = partial.rows_done
            partial.append(some(done, min(N_ROWS, done + count)))
            if "checkpoint" in then:
                partial.checkpoint()
            if "stop" in then:
                partial.close()
                assert not path.exists()
                partial = begin(path)
        with partial:
            partial.append(some(partial.rows_done, N_ROWS))
            partial.finish()
        assert path.read_bytes() == expected
        assert beside(path) == {"whole"}


def test_work_goes_on_from_the_last_checkpoint(tmp_path: Path) -> None:
    interrupted(tmp_path / "codes", 30, lost=10)
    assert go_on(tmp_path / "codes") == 30
    assert (tmp_path / "codes").read_bytes() == write_whole(tmp_path / "whole")


def test_without_a_checkpoint_work_begins_again(tmp_path: Path) -> None:
    with begin(tmp_path / "codes") as partial:
        partial.append(some(0, 50))
    assert go_on(tmp_path / "codes") == 0
    assert (tmp_path / "codes").read_bytes() == write_whole(tmp_path / "whole")


@pytest.mark.parametrize("mmap", [False, True])
def test_a_file_under_way_is_never_taken_for_whole(tmp_path: Path, mmap: bool) -> None:
    path, under_way = tmp_path / "codes", tmp_path / ".codes.partial"
    with begin(path) as partial:
        for first in range(0, N_ROWS, 5):
            partial.append(some(first, first + 5))
            partial.checkpoint()
            assert not path.exists()
            with pytest.raises(CorruptFileError, match="is not a bitkin file, or is cut short"):
                bitkin.load(under_way, mmap=mmap)
    with pytest.raises(CorruptFileError, match="is not a bitkin file, or is cut short"):
        bitkin.load(under_way, mmap=mmap)


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "codes"
    old = write_whole(path, 7)
    interrupted(path, 30, lost=35)
    assert path.read_bytes() == old
    go_on(path)
    assert path.read_bytes() == write_whole(tmp_path / "whole")


def test_other_work_under_the_same_name_is_refused_and_left_alone(tmp_path: Path) -> None:
    interrupted(tmp_path / "codes", 30)
    with pytest.raises(
        InvalidInputError,
        match=r"\.codes\.partial is the beginning of other work. Delete it, or ask",
    ):
        begin(tmp_path / "codes", work="other")
    assert go_on(tmp_path / "codes") == 30


def test_a_fresh_start_takes_no_notice_of_what_is_there(tmp_path: Path) -> None:
    for work in ("this", "other"):
        interrupted(tmp_path / "codes", 30, work=work)
        assert go_on(tmp_path / "codes", fresh=True) == 0
        assert (tmp_path / "codes").read_bytes() == write_whole(tmp_path / "whole")
        assert beside(tmp_path / "codes") == {"whole"}


@pytest.mark.parametrize("before, after", [("this", "this"), ("other", "this"), ("this", "other")])
def test_a_fresh_start_that_is_interrupted_at_once_forgets_the_earlier_work(
    tmp_path: Path, before: str, after: str
) -> None:
    path = tmp_path / "codes"
    interrupted(path, 30, work=before)
    with begin(path, fresh=True, work=after):
        pass  # killed before its first checkpoint
    assert go_on(path, work=before) == 0
    assert path.read_bytes() == write_whole(tmp_path / "whole")


def test_deleting_the_file_under_way_is_enough_to_begin_other_work(tmp_path: Path) -> None:
    path = tmp_path / "codes"
    interrupted(path, 30)
    (tmp_path / ".codes.partial").unlink()  # as the error advises
    with begin(path, work="other"):
        pass  # killed before its first checkpoint
    assert go_on(path, work="other") == 0
    assert path.read_bytes() == write_whole(tmp_path / "whole")


def journal(**changes: Any) -> bytes:
    state = {"work": {"work": "this"}, "rows": 30, "crcs": {"words": 1, "empty": 2}} | changes
    return json.dumps({key: value for key, value in state.items() if value != "absent"}).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"rows"',
        b"7",
        b"\xff\xfe",
        b"[" * 100_000,
        journal(work="absent"),
        journal(rows="absent"),
        journal(crcs="absent"),
        journal(rows=-1),
        journal(rows=N_ROWS + 1),
        journal(rows=True),
        journal(rows=3.0),
        journal(rows=None),
        journal(crcs=None),
        journal(crcs=[]),
        journal(crcs=["words", "empty"]),
        journal(crcs={"words": 1}),
        journal(crcs={"words": 1, "empty": 2, "more": 3}),
        journal(crcs={"words": -1, "empty": 2}),
        journal(crcs={"words": 2**32, "empty": 2}),
        journal(crcs={"words": "1", "empty": 2}),
    ],
    ids=lambda text: text[:90].decode(errors="replace"),
)
def test_a_journal_nobody_can_read_begins_the_work_again(tmp_path: Path, text: bytes) -> None:
    interrupted(tmp_path / "codes", 30)
    (tmp_path / ".codes.partial.json").write_bytes(text)
    assert go_on(tmp_path / "codes") == 0
    assert (tmp_path / "codes").read_bytes() == write_whole(tmp_path / "whole")
    assert beside(tmp_path / "codes") == {"whole"}


def test_a_journal_without_its_data_begins_the_work_again(tmp_path: Path) -> None:
    interrupted(tmp_path / "codes", 30)
    (tmp_path / ".codes.partial").unlink()
    assert go_on(tmp_path / "codes") == 0
    assert (tmp_path / "codes").read_bytes() == write_whole(tmp_path / "whole")


@pytest.mark.parametrize("left", [0, 100, 700])
def test_data_shorter_than_the_journal_says_begins_the_work_again(
    tmp_path: Path, left: int
) -> None:
    interrupted(tmp_path / "codes", 30)
    os.truncate(tmp_path / ".codes.partial", left)
    assert go_on(tmp_path / "codes") == 0
    assert (tmp_path / "codes").read_bytes() == write_whole(tmp_path / "whole")


def test_data_damaged_between_two_runs_is_noticed_at_the_latest_when_it_is_loaded(
    tmp_path: Path,
) -> None:
    interrupted(tmp_path / "codes", 30)
    with (tmp_path / ".codes.partial").open("r+b") as file:
        file.seek(-9, os.SEEK_END)
        file.write(b"damage")
    if go_on(tmp_path / "codes") == 30:
        with pytest.raises(CorruptFileError, match="checksum"):
            bitkin.load(tmp_path / "codes")
    else:
        assert (tmp_path / "codes").read_bytes() == write_whole(tmp_path / "whole")


def test_a_longer_file_under_way_is_cut_to_size(tmp_path: Path) -> None:
    interrupted(tmp_path / "codes", 30)
    with (tmp_path / ".codes.partial").open("ab") as file:
        file.write(bytes(100_000))
    assert go_on(tmp_path / "codes") == 30
    assert (tmp_path / "codes").read_bytes() == write_whole(tmp_path / "whole")


def test_a_folder_is_no_target(tmp_path: Path) -> None:
    with pytest.raises(
        FileAccessError, match=r"cannot be written: .* is a folder. What was there is unchanged"
    ):
        begin(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_target_in_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match="codes cannot be written: No such file or directory"):
        begin(tmp_path / "nowhere" / "codes")


def test_a_link_keeps_pointing_at_the_file_that_becomes_whole(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "codes")
    assert go_on(tmp_path / "link") == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "codes").read_bytes() == write_whole(tmp_path / "whole")


def full_disk(*arguments: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FullFile:
    """A file on a disk that is full: nothing can be written, not even when it is closed."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: Any) -> None:
        full_disk()

    def close(self) -> None:
        self._file.close()
        full_disk()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.mark.parametrize("step", ["append", "checkpoint", "finish"])
def test_a_full_disk_leaves_the_old_file_whole_and_the_work_to_go_on(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "codes"
    old = write_whole(path, 7)
    interrupted(path, 30)
    with begin(path) as partial, monkeypatch.context() as patch:
        if step != "append":
            partial.append(some(30, N_ROWS))
        patch.setattr(os, "fsync", full_disk)
        patch.setattr(partial, "_file", FullFile(partial._file))
        act: dict[str, Callable[[], None]] = {
            "append": lambda: partial.append(some(30, N_ROWS)),
            "checkpoint": partial.checkpoint,
            "finish": partial.finish,
        }
        with pytest.raises(
            FileAccessError, match=r"cannot be written: No space left on device. What was there is"
        ):
            act[step]()
    assert path.read_bytes() == old
    assert go_on(path) == 30
    assert path.read_bytes() == write_whole(tmp_path / "whole")


def test_a_full_disk_met_when_the_file_is_closed_does_not_hide_the_first_error(
    tmp_path: Path,
) -> None:
    with pytest.raises(InvalidInputError, match="the first"), begin(tmp_path / "codes") as partial:  # noqa: PT012
        partial._file = FullFile(partial._file)  # type: ignore[assignment]
        raise InvalidInputError("the first")


def test_a_journal_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "codes"
    interrupted(path, 30)
    with begin(path) as partial:
        partial.append(some(30, 40))
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", full_disk)
            with pytest.raises(
                FileAccessError, match=r"cannot be written: No space left on device"
            ):
                partial.checkpoint()
    assert beside(path) == {".codes.partial", ".codes.partial.json"}
    assert go_on(path) == 30
    assert path.read_bytes() == write_whole(tmp_path / "whole")


def test_rows_must_be_those_announced(tmp_path: Path) -> None:
    with begin(tmp_path / "codes") as partial:
        with pytest.raises(RuntimeError, match="every tensor must get the same number of rows"):
            partial.append({"words": some(0, 3)["words"], "empty": some(0, 2)["empty"]})
        with pytest.raises(RuntimeError, match="every tensor must get the same number of rows"):
            partial.append({"words": some(0, 3)["words"]})
        partial.append(some(0, 64))
        with pytest.raises(RuntimeError, match="64 rows where 65 were announced"):
            partial.finish()
    assert not (tmp_path / "codes").exists()


def test_more_rows_than_announced_never_become_a_file(tmp_path: Path) -> None:
    with begin(tmp_path / "codes") as partial:
        partial.append(some(0, N_ROWS))
        with pytest.raises(RuntimeError, match="rows where 65 were announced"):  # noqa: PT012
            partial.append(some(0, 1))
            partial.finish()
    assert not (tmp_path / "codes").exists()


def test_ctrl_c_at_any_line_of_an_append_leaves_rows_that_fit_their_checksums(
    tmp_path: Path,
) -> None:
    expected, path = write_whole(tmp_path / "whole"), tmp_path / "codes"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    outcomes = Outcomes()
    try:
        with begin(tmp_path / "other") as other:
            other.append(some(0, 20))
            moments = moments_of(other.append, some(20, 40))
        for moment in moments:
            with begin(path, fresh=True) as partial:
                partial.append(some(0, 20))
                outcomes.add(interrupted_at(moment, partial.append, some(20, 40)))
                assert partial.rows_done in (20, 40)
                partial.checkpoint()
            go_on(path)
            assert path.read_bytes() == expected
    finally:
        signal.signal(signal.SIGINT, before)
    outcomes.require_interrupts()
