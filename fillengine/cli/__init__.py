"""The command line."""

from __future__ import annotations


def main() -> None:
    """The console script."""
    from fillengine.cli.app import app

    app(prog_name="fillengine")
