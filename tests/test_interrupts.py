from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import bitkin
from bitkin import interrupts, threads
from bitkin.errors import InvalidInputError
from bitkin.locks import ModelLock, WriterLock
from tests.interruptions import (
    Outcomes,
    in_another_thread,
    interrupted_at,
    moments_of,
    require_nothing_left_behind,
)

pytestmark = pytest.mark.usefixtures("few_threads")


@pytest.fixture(autouse=True)
def ordinary_ctrl_c() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_signal_waits_for_the_end_of_the_block() -> None:
    done = []

    def block() -> None:
        with interrupts.held:
            signal.raise_signal(signal.SIGINT)
            done.append("the block went on")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert done == ["the block went on"]
    require_nothing_left_behind()


def test_a_check_lets_a_held_signal_through_and_a_sealed_block_does_not() -> None:
    done = []

    def both() -> None:
        with interrupts.held:
            with interrupts.sealed:
                signal.raise_signal(signal.SIGINT)
                interrupts.check()
                done.append("sealed")
            interrupts.check()
            done.append("never")

    with pytest.raises(KeyboardInterrupt):
        both()
    assert done == ["sealed"]
    require_nothing_left_behind()


def test_every_python_handler_is_held_and_one_that_raises_nothing_disturbs_nothing() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    try:
        with interrupts.held:
            signal.raise_signal(signal.SIGUSR1)
            signal.raise_signal(signal.SIGUSR1)
            assert seen == []
        assert seen == [signal.SIGUSR1]
        bitkin.set_threads(2)

        def work(i: int) -> int:
            if threading.current_thread() is threading.main_thread():
                signal.raise_signal(signal.SIGUSR1)
            return i

        assert threads.run(work, range(50)) == list(range(50))
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_no_signal_is_lost_though_the_handler_of_another_raises() -> None:
    seen: list[int] = []

    def note_and_raise(number: int, frame: Any) -> None:
        seen.append(number)
        raise TimeoutError(f"signal {number}")

    before = [signal.signal(number, note_and_raise) for number in (signal.SIGUSR1, signal.SIGUSR2)]
    try:
        for let_one_through in (False, True):
            seen.clear()
            with pytest.raises(TimeoutError), interrupts.held:
                _send_both(let_one_through)
            assert sorted(seen) == [signal.SIGUSR1, signal.SIGUSR2]
            require_nothing_left_behind()
    finally:
        for number, handler in zip((signal.SIGUSR1, signal.SIGUSR2), before, strict=True):
            signal.signal(number, handler)


def _send_both(let_one_through: bool) -> None:
    signal.raise_signal(signal.SIGUSR1)
    signal.raise_signal(signal.SIGUSR2)
    if let_one_through:
        interrupts.check()


def test_a_handler_that_was_set_inside_a_block_and_calls_the_one_before_it_does_so_once() -> None:
    seen: list[str] = []

    def first(number: int, frame: Any) -> None:
        seen.append("first")

    signal.signal(signal.SIGINT, first)
    with interrupts.held:
        previous: Any = signal.getsignal(signal.SIGINT)  # what stands for `first`

        def second(number: int, frame: Any) -> None:
            seen.append("second")
            previous(number, frame)

        signal.signal(signal.SIGINT, second)
    for let_through in (False, True):
        seen.clear()
        with interrupts.held:
            signal.raise_signal(signal.SIGINT)
            if let_through:
                interrupts.check()
        assert seen == ["second", "first"]


_ASYNCIO = """
import asyncio, os, signal
from bitkin import interrupts
heard = []
async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, heard.append, 1)
    with interrupts.held:
        os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(0.05)
asyncio.run(main())
print(heard)
"""


@pytest.mark.skipif(os.name != "posix", reason="asyncio handles signals on POSIX alone")
def test_an_event_loop_hears_of_a_held_signal_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ASYNCIO], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[1]\n", "")


_RESTARTING = """
import ctypes, os, signal, threading, time
from bitkin import interrupts
signal.signal(signal.SIGUSR1, lambda number, frame: None)
signal.siginterrupt(signal.SIGUSR1, False)
with interrupts.held:
    pass
reading, writing = os.pipe()
def disturb():
    time.sleep(0.3)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
    time.sleep(0.3)
    os.write(writing, b"x")
threading.Thread(target=disturb).start()
print(ctypes.CDLL(None).read(reading, ctypes.create_string_buffer(1), 1))
"""


@pytest.mark.skipif(os.name != "posix", reason="flags of signals are POSIX's")
def test_calls_of_the_system_go_on_after_a_signal_where_siginterrupt_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _RESTARTING], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_inside_a_block_leaves_it_like_any_other() -> None:
    script = (
        "import os, signal, threading\n"
        "from bitkin import interrupts\n"
        "def fork():\n"
        "    global code\n"
        "    with interrupts.sealed:\n"
        "        child = os.fork()\n"
        "    if child == 0:\n"
        "        os._exit(0 if (interrupts._depth, interrupts._sealed_depth) == (0, 0) else 1)\n"
        "    code = os.waitpid(child, 0)[1]\n"
        "thread = threading.Thread(target=fork)\n"
        "thread.start()\n"
        "thread.join()\n"
        "in_thread = code\n"
        "fork()\n"
        "print(in_thread, code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("0 0\n", "")


def test_where_python_lets_nobody_set_handlers_blocks_do_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(number: int, handler: Any) -> None:
        raise ValueError("signal only works in main thread of the main interpreter")

    monkeypatch.setattr(interrupts, "_main_thread", interrupts._main_thread)
    monkeypatch.setattr("_signal.signal", refuse)
    monkeypatch.setattr(interrupts, "_known_handlers", ())
    with interrupts.held, interrupts.sealed:
        assert interrupts._main_thread is None
    assert threads.run(lambda i: i, range(5)) == list(range(5))
    monkeypatch.undo()
    require_nothing_left_behind()


def test_a_handler_set_inside_the_block_stays() -> None:
    def other(number: int, frame: Any) -> None: ...

    with interrupts.held:
        signal.signal(signal.SIGINT, other)
    assert signal.getsignal(signal.SIGINT) is other


def test_other_threads_are_not_held_back() -> None:
    def block() -> int:
        with interrupts.held, interrupts.sealed:
            interrupts.check()
            return interrupts._depth

    assert in_another_thread(block) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_by_another_thread_gets_its_handlers_back() -> None:
    script = (
        "import os, signal, threading\n"
        "from bitkin import interrupts\n"
        "def fork():\n"
        "    global code\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
        "        os._exit(0 if usual and interrupts._depth == 0 else 1)\n"
        "    code = os.waitpid(child, 0)[1]\n"
        "with interrupts.held:\n"
        "    thread = threading.Thread(target=fork)\n"
        "    thread.start()\n"
        "    thread.join()\n"
        "print(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_blocks_hold_at_every_opcode() -> None:
    both = []

    def act() -> None:
        with interrupts.held:
            both.append(1)
            interrupts.sealed.__enter__()
            both.append(2)
            interrupts.sealed.__exit__()

    moments = moments_of(act, opcodes=True)
    assert len(moments) > 100
    outcomes = Outcomes()
    for moment in moments:
        both.clear()
        outcomes.add(interrupted_at(moment, act))
        assert both in ([], [1, 2])
        require_nothing_left_behind()
    outcomes.require_interrupts()


class _BusyPool:
    """A pool whose one helper waits until it is let go, so that whatever it is asked for next
    starts late.
    """

    def __init__(self, n_threads: int = 2) -> None:
        self._n_threads = n_threads

    def __enter__(self) -> _BusyPool:
        bitkin.set_threads(self._n_threads)
        self.let_go, helper_waits = threading.Event(), threading.Event()

        def wait(i: int) -> None:
            if threading.current_thread().name.startswith("bitkin"):
                helper_waits.set()
                self.let_go.wait(20)
            else:
                helper_waits.wait(20)

        self._caller = threading.Thread(target=lambda: threads.run(wait, range(2)), daemon=True)
        self._caller.start()
        assert helper_waits.wait(20)
        return self

    def __exit__(self, *error: object) -> None:
        self.let_go.set()
        self._caller.join(20)
        # The helper takes jobs one after another: when it has done this one, no earlier one is
        # left.
        both_work = threading.Barrier(2)
        threads.run(lambda i: both_work.wait(20), range(2))


def test_no_piece_outlives_a_call_that_was_interrupted_at_any_line() -> None:
    started: list[str] = []

    def work(i: int) -> None:
        started.append(state)

    state = "running"
    with _BusyPool():
        moments = moments_of(lambda: threads.run(work, range(4)), opcodes=True)
    assert len(moments) > 200
    outcomes = Outcomes()
    for moment in moments:
        started.clear()
        with _BusyPool():
            state = "running"
            outcomes.add(interrupted_at(moment, lambda: threads.run(work, range(4))))
            state = "late"
        assert "late" not in started
        require_nothing_left_behind()
    outcomes.require_interrupts()


def test_an_interrupt_in_threads_run_leaves_the_pool_working() -> None:
    bitkin.set_threads(3)

    def act() -> list[int]:
        return threads.run(lambda i: i * i, range(6))

    act()
    outcomes = Outcomes()
    for moment in moments_of(act, opcodes=True):
        outcomes.add(interrupted_at(moment, act))
        require_nothing_left_behind()
        assert in_another_thread(act) == [0, 1, 4, 9, 16, 25]
    outcomes.require_interrupts()


def test_an_interrupt_while_the_pool_starts_leaves_it_working() -> None:
    def act() -> list[int]:
        bitkin.set_threads(3)
        return threads.run(lambda i: i * i, range(6))

    outcomes = Outcomes()
    for moment in moments_of(act, opcodes=True):
        outcomes.add(interrupted_at(moment, act))
        require_nothing_left_behind()
    outcomes.require_interrupts()
    assert in_another_thread(act) == [0, 1, 4, 9, 16, 25]


def test_an_interrupt_is_not_lost_and_ends_the_work() -> None:
    bitkin.set_threads(2)
    done: list[int] = []

    def work(i: int) -> None:
        if i == 3:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.001)
        done.append(i)

    with pytest.raises(KeyboardInterrupt):
        threads.run(work, range(2000))
    assert len(done) < 1000
    require_nothing_left_behind()


def test_one_thread_can_be_interrupted_between_pieces_inside_a_held_block() -> None:
    bitkin.set_threads(1)
    done: list[int] = []

    def work(i: int) -> None:
        done.append(i)
        if i == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), threads.blas_in_one_thread():
        threads.run(work, range(10))
    assert done == [0, 1, 2, 3]
    require_nothing_left_behind()


def test_an_interrupt_at_any_line_leaves_blas_with_its_threads() -> None:
    bitkin.set_threads(2)

    def numbers() -> set[int]:
        return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}

    def act() -> None:
        with threads.blas_in_one_thread():
            np.ones((3, 3)) @ np.ones((3, 3))

    act()
    before = numbers()
    outcomes = Outcomes()
    for moment in moments_of(act, opcodes=True):
        outcomes.add(interrupted_at(moment, act))
        require_nothing_left_behind()
    outcomes.require_interrupts()
    assert numbers() == before


@pytest.mark.parametrize("kind", [WriterLock, ModelLock])
def test_a_lock_is_free_after_an_interrupt_at_any_line(kind: type[WriterLock | ModelLock]) -> None:
    lock = kind()
    entered: list[int] = []

    def act() -> None:
        with lock:
            entered.append(1)

    outcomes = Outcomes()
    for moment in moments_of(act, opcodes=True):
        outcomes.add(interrupted_at(moment, act))
        require_nothing_left_behind()
        in_another_thread(act)
    outcomes.require_interrupts()


@pytest.mark.parametrize("kind", [WriterLock, ModelLock])
def test_whoever_waits_for_a_lock_can_be_interrupted(kind: type[WriterLock | ModelLock]) -> None:
    lock, taken, let_go = kind(), threading.Event(), threading.Event()

    def write() -> None:
        with lock:
            taken.set()
            let_go.wait(20)

    writer = threading.Thread(target=write)
    writer.start()
    taken.wait(20)
    interrupter = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
    interrupter.start()
    with pytest.raises(KeyboardInterrupt), lock:
        pass
    let_go.set()
    writer.join()
    in_another_thread(write)


def test_a_writer_does_not_begin_inside_itself() -> None:
    lock = WriterLock()
    with lock, pytest.raises(InvalidInputError, match="must not begin inside another one"), lock:
        pass
    in_another_thread(lambda: lock.__enter__())


@pytest.fixture
def one_helper_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system refuse every thread of the pool but the first."""
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def refuse_second(thread: threading.Thread) -> None:
        if thread.name.startswith("bitkin"):
            if started:
                raise RuntimeError("can't start new thread")
            started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_second)


@pytest.mark.usefixtures("one_helper_at_most")
def test_a_helper_is_awaited_though_no_other_thread_could_be_started() -> None:
    helper_began = threading.Event()

    def work(i: int) -> int:
        if threading.current_thread() is threading.main_thread():
            busy.let_go.set()
            helper_began.wait(20)
        else:
            helper_began.set()
            time.sleep(0.2)
        return i

    with _BusyPool(n_threads=3) as busy:
        assert threads.run(work, range(2)) == [0, 1]


def test_where_no_thread_can_be_started_the_caller_does_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    bitkin.set_threads(4)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert threads.run(lambda i: i, range(100)) == list(range(100))


_COMPILING = """
import signal
import numpy as np
import bitkin
from numba.core import pythonapi
codes = bitkin.Codes.from_bytes(np.arange(30, dtype=np.uint8)[:, None], 8)
index = bitkin.FlatIndex(codes.spec)
class Interrupting(dict):
    sent = False
    def __setitem__(self, kind, function):
        super().__setitem__(kind, function)
        if not Interrupting.sent:
            Interrupting.sent = True
            signal.raise_signal(signal.SIGINT)
pythonapi._boxers.functions = Interrupting(pythonapi._boxers.functions)
try:
    index.add(codes)
except KeyboardInterrupt:
    print("interrupted")
index = bitkin.FlatIndex(codes.spec)
index.add(codes)
assert index.search(codes, 1).ids[:, 0].tolist() == list(range(30))
print("right")
"""


def test_an_interrupt_while_a_kernel_loads_comes_after_it() -> None:
    quiet = {**os.environ, "BITKIN_QUIET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _COMPILING], capture_output=True, text=True, check=False, env=quiet
    )
    assert (done.stdout, done.stderr) == ("interrupted\nright\n", "")


_LOADING = """
import builtins, signal
import numpy as np
import bitkin
usual, sent = builtins.__import__, []
def watching(name, *arguments, **settings):
    if name.startswith("numba") and len(sent) < 1:
        sent.append(name)
        signal.raise_signal(signal.SIGINT)
    return usual(name, *arguments, **settings)
builtins.__import__ = watching
try:
    bitkin.FlatIndex
except KeyboardInterrupt:
    print("interrupted")
import sys
assert "numba.core.types" in sys.modules
codes = bitkin.Codes.from_bytes(np.array([[1], [2], [3]], dtype=np.uint8), 8)
index = bitkin.FlatIndex(codes.spec)
index.add(codes)
print(index.search(codes, 1).ids.ravel().tolist())
"""


def test_an_interrupt_while_numba_is_imported_comes_after_it() -> None:
    quiet = {**os.environ, "BITKIN_QUIET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _LOADING], capture_output=True, text=True, check=False, env=quiet
    )
    assert (done.stdout, done.stderr) == ("interrupted\n[0, 1, 2]\n", "")
