"""python -m fillengine.bench: the same commands as `fillengine bench`."""

from __future__ import annotations

import sys

from rich.console import Console

from fillengine.bench.app import app
from fillengine.errors import FillError


def main() -> None:
    try:
        app(prog_name="python -m fillengine.bench")
    except FillError as error:
        Console(stderr=True).print(f"fillengine bench: error: {error}", highlight=False, soft_wrap=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
