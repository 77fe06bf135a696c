from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl
from threadpoolctl import threadpool_info

import bitkin
from bitkin import threads
from bitkin.errors import EnvironmentVariableError, InvalidInputError

pytestmark = pytest.mark.usefixtures("few_threads")


def test_results_come_in_the_order_of_the_pieces() -> None:
    bitkin.set_threads(3)
    assert threads.run(lambda i: i * i, range(100)) == [i * i for i in range(100)]
    assert threads.run(lambda i: i, []) == []


def test_nested_calls_end() -> None:
    bitkin.set_threads(2)

    def outer(i: int) -> int:
        return sum(threads.run(lambda j: i * j, range(5)))

    assert threads.run(outer, range(20)) == [10 * i for i in range(20)]


def test_the_first_failure_reaches_the_caller_and_the_rest_is_left_out() -> None:
    bitkin.set_threads(2)
    done = []

    def work(i: int) -> None:
        if i == 3:
            raise ZeroDivisionError("piece 3")
        time.sleep(0.001)
        done.append(i)

    with pytest.raises(ZeroDivisionError, match="piece 3"):
        threads.run(work, range(1000))
    assert len(done) < 100
    assert threads.run(lambda i: i, range(3)) == [0, 1, 2]


def test_many_threads_may_use_the_pool_at_once() -> None:
    bitkin.set_threads(3)
    answers: list[list[int]] = []

    def caller() -> None:
        answers.append(threads.run(lambda i: i + 1, range(200)))

    callers = [threading.Thread(target=caller) for _ in range(8)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert answers == [list(range(1, 201))] * 8


def test_the_number_of_threads_follows_affinity_environment_and_set_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("BITKIN_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "_n_threads", None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5, 7}, raising=False)
    assert bitkin.get_threads() == 3
    monkeypatch.setenv("BITKIN_NUM_THREADS", "5")
    assert bitkin.get_threads() == 5
    bitkin.set_threads(1)
    assert bitkin.get_threads() == 1
    np.ones((4, 4)) @ np.ones((4, 4))
    assert {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"} <= {1}


@pytest.mark.parametrize("wanted", ["0", "-2", "many", "1.5"])
def test_an_impossible_number_of_threads_is_named(
    monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    monkeypatch.setattr(threads, "_n_threads", None)
    monkeypatch.setenv("BITKIN_NUM_THREADS", wanted)
    with pytest.raises(InvalidInputError, match="BITKIN_NUM_THREADS must be"):
        bitkin.get_threads()


def test_an_impossible_number_of_threads_is_blamed_on_no_vectors_and_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    X = np.random.default_rng(0).standard_normal((50, 5))
    hasher = bitkin.ProjectionHash(4).fit(X)
    collection = bitkin.Collection.create(None, hasher)
    collection.add(X)
    bitkin.KernelMap(anchors=3).fit(X).save(tmp_path / "map")
    monkeypatch.setattr(threads, "_n_threads", None)
    monkeypatch.setenv("BITKIN_NUM_THREADS", "abc")
    for call in (
        lambda: collection.search(X, 1),
        lambda: collection.search(X, 1, stage="codes"),
        lambda: hasher.encode_batch(X, "vectors.npy", 0),
        lambda: bitkin.load(tmp_path / "map"),
    ):
        with pytest.raises(
            EnvironmentVariableError, match=r"^BITKIN_NUM_THREADS must be a whole number, got 'abc'"
        ):
            call()


def test_set_threads_refuses_what_is_no_number_of_threads() -> None:
    for n in (0, -1, 2.0, "2", None):
        with pytest.raises(InvalidInputError, match="n must be"):
            bitkin.set_threads(n)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [threads.MOST_THREADS + 1, 1_000_000, 2**70])
def test_more_threads_than_a_machine_can_start_are_refused(
    monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    before = threads._n_threads
    with pytest.raises(
        InvalidInputError, match=rf"n must be between 1 and {threads.MOST_THREADS}, got {n}"
    ):
        bitkin.set_threads(n)
    assert threads._n_threads == before
    monkeypatch.setattr(threads, "_n_threads", None)
    monkeypatch.setenv("BITKIN_NUM_THREADS", str(n))
    with pytest.raises(
        InvalidInputError, match=rf"BITKIN_NUM_THREADS must be between 1 and {threads.MOST_THREADS}"
    ):
        bitkin.get_threads()


def test_the_pool_may_be_replaced_while_others_use_it() -> None:
    stop = threading.Event()
    failures: list[BaseException] = []

    def caller() -> None:
        try:
            while not stop.is_set():
                assert threads.run(lambda i: i, range(20)) == list(range(20))
        except BaseException as failure:  # noqa: BLE001  # raised again below
            failures.append(failure)

    callers = [threading.Thread(target=caller) for _ in range(3)]
    for thread in callers:
        thread.start()
    for round_number in range(40):
        bitkin.set_threads(2 + round_number % 2)
    stop.set()
    for thread in callers:
        thread.join()
    assert failures == []


def test_a_thread_that_outlives_the_main_one_goes_on_alone() -> None:
    script = (
        "import threading, time, bitkin\n"
        "from bitkin import threads\n"
        "bitkin.set_threads(2)\n"
        "def late():\n"
        "    time.sleep(0.5)\n"
        "    print(threads.run(lambda i: i, range(3)))\n"
        "threading.Thread(target=late).start()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout == "[0, 1, 2]\n"
    assert done.stderr == ""


def test_an_interruption_waits_for_pieces_under_way() -> None:
    bitkin.set_threads(2)
    under_way, ended = threading.Event(), threading.Event()
    caller = threading.current_thread()

    def work(i: int) -> None:
        if threading.current_thread() is caller:
            under_way.wait(5)
            raise KeyboardInterrupt
        under_way.set()
        time.sleep(0.05)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        threads.run(work, range(2))
    assert ended.is_set()


def test_matrix_products_run_in_one_thread_inside_the_block_and_as_before_after_it() -> None:
    bitkin.set_threads(2)

    def numbers() -> set[int]:
        return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}

    before = numbers()
    with threads.blas_in_one_thread():
        with threads.blas_in_one_thread():
            assert numbers() == {1}
        assert numbers() == {1}
    assert numbers() == before


def test_a_number_set_inside_the_block_holds_after_it() -> None:
    bitkin.set_threads(2)
    with threads.blas_in_one_thread():
        bitkin.set_threads(1)
    assert {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"} == {1}


def test_libraries_are_looked_for_once_until_something_is_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with threads.blas_in_one_thread():
        pass
    looks = []
    look = threadpoolctl.ThreadpoolController

    def noted() -> threadpoolctl.ThreadpoolController:
        looks.append(1)
        return look()

    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", noted)
    for _ in range(3):
        with threads.blas_in_one_thread():
            pass
    assert looks == []
    monkeypatch.setitem(sys.modules, "a_module_that_was_just_imported", threading)
    with threads.blas_in_one_thread():
        assert looks == [1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_inside_the_block_has_the_threads_from_before_it() -> None:
    script = (
        "import os, numpy, bitkin\n"
        "from bitkin import threads\n"
        "from threadpoolctl import threadpool_info\n"
        "bitkin.set_threads(2)\n"
        "before = [info['num_threads'] for info in threadpool_info() if info['user_api'] == "
        "'blas']\n"
        "with threads.blas_in_one_thread():\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        now = [info['num_threads'] for info in threadpool_info() if info['user_api'] == "
        "'blas']\n"
        "        os._exit(0 if now == before and set(now) == {2} else 1)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "print('right')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("right\n", "")


def test_the_block_holds_in_whatever_thread_it_is_entered() -> None:
    bitkin.set_threads(2)

    def numbers() -> set[int]:
        return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}

    seen: list[set[int]] = []

    def enter() -> None:
        with threads.blas_in_one_thread():
            seen.append(numbers())
        seen.append(numbers())

    for _ in range(2):
        other = threading.Thread(target=enter)
        other.start()
        other.join()
    assert seen == [{1}, {2}, {1}, {2}]


def test_a_thread_that_works_alone_gets_no_help() -> None:
    names: set[int] = set()

    def work(piece: int) -> int:
        names.add(threading.get_ident())
        time.sleep(0.002)
        return piece

    with threads.alone():
        assert threads.run(work, range(20)) == list(range(20))
        with threads.alone():
            pass
        threads.run(work, range(20))
    assert names == {threading.get_ident()}
