"""The one decorator of all kernels: compiled for this machine, cached on disk, running without the
GIL.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from bitkin import interrupts

# an import that is interrupted half-way leaves registrations behind, and cannot be repeated
with interrupts.sealed:
    import numba
    from numba.core import event
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.cpu import CPUTargetOptions
    from numba.core.types import unliteral

from bitkin.kernels._cache import KernelCache

P = ParamSpec("P")
R = TypeVar("R")
# Kernels get all their room from the caller and are called from Python or by each other. Without
# counting of references and without a C entry they compile in two thirds of the time, and a call
# with eight arrays takes half as long. An option that a later Numba drops is left out.
_LEAN: dict[str, Any] = {
    name: value
    for name, value in {"no_cfunc_wrapper": True, "_nrt": False}.items()
    if hasattr(CPUTargetOptions, name)
}
JIT_DISABLED: bool = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]  # set while Numba is imported


def _is_ours(event: Any) -> bool:
    """Whether the function that is compiled is one of bitkin's; some of others have no module."""
    module = event.data["dispatcher"].py_func.__module__
    return isinstance(module, str) and module.startswith("bitkin.")


class _FirstCompilation(event.Listener):
    """Say once on stderr that kernels are being compiled, so that the first call does not look
    frozen.
    """

    def on_start(self, event: Any) -> None:
        if self.announced or not _is_ours(event):
            return
        self.announced = True
        if sys.stderr is not None and not os.environ.get("BITKIN_QUIET"):
            print(
                "bitkin: compiling kernels for this machine, up to a minute, kept for the next run "
                "(bitkin warmup does it beforehand)",
                file=sys.stderr,
            )

    def on_end(self, event: Any) -> None:
        """Nothing to say: the answer itself follows."""

    announced = False


class _Counter(event.Listener):
    """How many of our functions were compiled."""

    compiled = 0

    def on_start(self, event: Any) -> None:
        self.compiled += _is_ours(event)

    def on_end(self, event: Any) -> None:
        """Counted when it began."""


@contextmanager
def count_compilations() -> Iterator[Callable[[], int]]:
    """Give a function that says how many kernels were compiled since the block began."""
    counter = _Counter()
    event.register("numba:compile", counter)
    try:
        yield lambda: counter.compiled
    finally:
        event.unregister("numba:compile", counter)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` with `nogil` and a disk cache; without the cache where nothing is
    writable.

    A kernel allocates nothing: all arrays come from the caller. One whose name begins with an
    underscore, or that lives in `_shared`, is for other kernels; called from Python it runs as
    Python.

    With NUMBA_DISABLE_JIT=1 the function stays plain Python, with the silent wrap-around of machine
    integers.
    """
    return _compile(function, forceinline=False)


def inlined_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Like `kernel`, for a helper that a loop must absorb whole to be vectorized, however long it
    is.
    """
    return _compile(function, forceinline=True)


def summing_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Like `kernel`, for sums of floats that may be added in whatever order vectors are fastest in.

    The order is that of the compiled code: the same for every call on one machine, another one on
    others.
    """
    return _compile(function, forceinline=False, fastmath={"reassoc", "contract"})


def fused_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Like `kernel`, for sums of products, each of which may be added before it is rounded, in one
    instruction. They are added in the order that is written.
    """
    return _compile(function, forceinline=False, fastmath={"contract"})


def entry_of(function: Callable[..., R], *args: Any) -> Callable[..., R]:
    """Return what a kernel runs for arguments of the types that these have, compiled if need be.

    Calling that saves the look at every argument's type, which for 28 takes a third of a call. It
    must only be called with arguments of exactly these types, read-only or not as these are: others
    would be taken for them.
    """
    if JIT_DISABLED:
        return function
    dispatcher: Any = function
    with interrupts.sealed:
        entry: Callable[..., R] = dispatcher.compile(
            tuple(dispatcher.typeof_pyval(arg) for arg in args)
        )
    return entry


def _compile(
    function: Callable[P, R], *, forceinline: bool, fastmath: bool | set[str] = False
) -> Callable[P, R]:
    if JIT_DISABLED:
        return _as_python(function)
    helper = function.__name__.startswith("_") or function.__module__.endswith("._shared")
    compiled: Any = numba.njit(
        nogil=True,
        forceinline=forceinline,
        fastmath=fastmath,
        **{**_LEAN, "no_cpython_wrapper": helper},
    )(function)
    _compile_once_per_type(compiled)
    # Numba's "no locator available": neither the package folder nor a user folder is writable.
    with suppress(RuntimeError):
        compiled._cache = KernelCache(function)
    if helper:
        _keep_from_python(compiled, _as_python(function))
    else:
        _shield(compiled)
    return cast(Callable[P, R], compiled)


def _compile_once_per_type(dispatcher: Any) -> None:
    """Let calls by other kernels with a constant run what calls with a variable run: Numba would
    compile a function again for every whole number that stands as such in a call.
    """
    call_template = dispatcher.get_call_template

    def without_constants(args: Any, kws: Any) -> Any:
        return call_template(
            tuple(unliteral(arg) for arg in args),
            {name: unliteral(arg) for name, arg in kws.items()},
        )

    dispatcher.get_call_template = without_constants


def _as_python(function: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    def plain(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(over="ignore", invalid="ignore"):  # machine code says nothing either
            return function(*args, **kwargs)

    return plain


def _keep_from_python(dispatcher: Any, plain: Callable[..., Any]) -> None:
    """Answer calls from Python by `plain`: a helper has no entry for them, and Numba would jump to
    address 0.
    """
    # Compiled code is not offered to Python, so that each call asks what to run instead.
    dispatcher._insert = lambda *_args, **_kwargs: None
    dispatcher._compile_for_args = lambda *_args, **_kwargs: plain


def _shield(dispatcher: Any) -> None:
    """Let signals wait while a kernel is compiled or loaded: left half-way, Numba could do neither
    any more.
    """
    compile_for_args = dispatcher._compile_for_args

    def shielded(*args: Any, **kwargs: Any) -> Any:
        with interrupts.sealed:
            return compile_for_args(*args, **kwargs)

    dispatcher._compile_for_args = shielded


if not JIT_DISABLED:
    event.register("numba:compile", _FirstCompilation())
    # A fork waits until no other thread compiles or loads a kernel: nobody would ever give its lock
    # back in the child.
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=global_compiler_lock.acquire,
            after_in_parent=global_compiler_lock.release,
            after_in_child=global_compiler_lock.release,
        )
