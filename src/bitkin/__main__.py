"""`python -m bitkin`, and the command `bitkin`."""

from __future__ import annotations


def main() -> None:
    """Run the command line, or say how to install it."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        raise SystemExit(f"bitkin: the command line needs {error.name}: pip install 'bitkin[cli]'") from None
    from bitkin.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
