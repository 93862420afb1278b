"""The folder in which fillengine keeps what it fetched and measured."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import platformdirs

_STALE_AFTER = 24 * 3600
"""Seconds after which a temporary folder is taken for the leavings of a killed process."""


def cache_folder() -> Path:
    """`$FILLENGINE_CACHE`, or else the user's cache folder of this system. It need not exist."""
    chosen = os.environ.get("FILLENGINE_CACHE")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("fillengine"))


@contextlib.contextmanager
def folder_in_the_making(target: Path) -> Iterator[Path]:
    """A temporary folder that becomes `target` when the block ends well, and vanishes when it does not.

    It lies beside the target, so that the last step is one rename: nobody ever sees half a folder. When
    another process was faster, its folder stays. A folder that already stands at `target` when the block
    begins is taken for broken and is replaced.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    broken = _identity(target)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as around:
        made = Path(around, "made")
        made.mkdir()
        yield made
        if broken is not None and _identity(target) == broken:
            with contextlib.suppress(FileNotFoundError):  # another process replaced it at this moment
                os.replace(target, Path(around, "broken"))
        try:
            os.replace(made, target)
        except OSError:
            if not target.is_dir():
                raise


def write_whole(file: Path, text: str) -> None:
    """Write a file whole or not at all; its folder is made. Raises OSError, and leaves nothing beside it then."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}-{os.getpid()}-{threading.get_ident()}")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _sweep(target: Path) -> None:
    for left in target.parent.glob(f".{target.name}-*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE_AFTER:
                shutil.rmtree(left, ignore_errors=True)
