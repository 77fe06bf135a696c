"""How messages name arguments.

Some functions serve Python callers and the command line alike. Where one of their messages names an
argument, the caller says how that is written: `dim` and `fresh=True`, or `--dim` and `--fresh`.
"""

from __future__ import annotations


class ArgumentSpelling:
    """Arguments as Python writes them; the command line has a subclass with its own way."""

    def name(self, argument: str) -> str:
        """Return how an argument is called."""
        return argument

    def given(self, argument: str, value: object = True) -> str:
        """Return how an argument is given a value."""
        return f"{argument}={value!r}"

    def command(self, function: str, **arguments: object) -> str:
        """Return how a function of the package is called."""
        given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        return f"bitkin.{function}(..., {given})" if given else f"bitkin.{function}"


PYTHON = ArgumentSpelling()
