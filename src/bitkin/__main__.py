"""`python -m bitkin`, and the command `bitkin`."""

from __future__ import annotations

import sys

from bitkin import interrupts


def main() -> None:
    """Run the command line, or say how to install it."""
    try:
        # Ctrl-C while modules load comes here, and not as a traceback out of one of them
        with interrupts.sealed:
            try:
                import rich  # noqa: F401
                import typer  # noqa: F401
            except ImportError as error:
                raise SystemExit(
                    f"bitkin: the command line needs {error.name}: pip install 'bitkin[cli]'"
                ) from None
            from bitkin.cli.app import main as run
        run()
    except KeyboardInterrupt:
        print("bitkin: interrupted.", file=sys.stderr)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
