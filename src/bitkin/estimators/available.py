"""Conditional methods: they exist only on some objects of a class, and the error of the others says
why.

Like scikit-learn's `available_if`, whose error does not give the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import MethodType
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


class _Conditional:
    def __init__(self, method: Callable[..., Any], why_not: Callable[[Any], str | None]) -> None:
        self._method = method
        self._why_not = why_not
        self.__doc__ = method.__doc__

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is not None:
            self._require(owner)
            return MethodType(self._method, owner)

        # asked of the class, as `Class.method` or by
        # documentation tools: a plain function that checks
        @wraps(self._method)
        def call_on(owner: Any, *args: Any, **kwargs: Any) -> Any:
            self._require(owner)
            return self._method(owner, *args, **kwargs)

        return call_on

    def _require(self, owner: Any) -> None:
        name = self._method.__name__
        if (reason := self._why_not(owner)) is not None:
            message = f"This {type(owner).__name__} has no attribute {name!r}: {reason}"
            raise AttributeError(message, name=name, obj=owner)


def unless(why_not: Callable[[Any], str | None]) -> Callable[[Method], Method]:
    """Return a decorator for a method that exists unless `why_not` gives a reason: then `hasattr`
    is False.
    """
    return lambda method: _Conditional(method, why_not)  # type: ignore[return-value]
