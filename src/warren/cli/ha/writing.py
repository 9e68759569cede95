"""Rendered files, written all or none: each lies finished beside its place before the first of them takes it, and what
they replace is kept until the last has. If one of them cannot take its place the others give theirs back.

Files of others in the same folder stay as they are.
"""

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from warren.errors import WarrenError
from warren.ha.bundle import RenderedFile


def write_all(folder: Path, files: Sequence[RenderedFile]) -> None:
    made: list[Path] = []
    try:
        _look_at_places(folder, files)
        _make_folders(folder, made)
        with tempfile.TemporaryDirectory(prefix=".render-", dir=folder, ignore_cleanup_errors=True) as staging:
            for file in files:
                _write(Path(staging) / "new" / file.path, file)
            _take_places(folder, Path(staging), files)
    except BaseException as error:
        for empty in reversed(made):
            with suppress(OSError):
                empty.rmdir()
        if not isinstance(error, OSError):
            raise
        raise WarrenError(f"nothing was written: {error.filename or folder}: {error.strerror}") from error


def _look_at_places(folder: Path, files: Sequence[RenderedFile]) -> None:
    for file in files:
        parts = PurePosixPath(file.path)
        if parts.is_absolute() or ".." in parts.parts:
            raise WarrenError(f"nothing was written: {file.path} would not be in {folder}")
        if (folder / file.path).is_dir():
            raise WarrenError(f"nothing was written: {folder / file.path} is a folder, and a file belongs there")


def _write(path: Path, file: RenderedFile) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(file.text, encoding="utf-8")
    path.chmod(0o755 if file.executable else 0o644)


def _take_places(folder: Path, staging: Path, files: Sequence[RenderedFile]) -> None:
    made: list[Path] = []
    taken: list[str] = []
    try:
        for file in files:
            _make_folders((folder / file.path).parent, made)
            _keep(folder / file.path, staging / "old" / file.path)
        for file in files:
            os.replace(staging / "new" / file.path, folder / file.path)
            taken.append(file.path)
    except BaseException:
        for path in taken:
            _give_back(folder / path, staging / "old" / path)
        for empty in reversed(made):
            empty.rmdir()
        raise


def _make_folders(folder: Path, made: list[Path]) -> None:
    """Those that are missing on the way there, outermost first."""
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        missing.mkdir()
        made.append(missing)


def _keep(path: Path, kept: Path) -> None:
    """A second name for what is there, so that it outlives its replacement."""
    if os.path.lexists(path):
        kept.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, kept, follow_symlinks=False)


def _give_back(path: Path, kept: Path) -> None:
    if os.path.lexists(kept):
        os.replace(kept, path)
    else:
        path.unlink()
