"""Rendered files, written all or none: each lies finished beside its place before the first of them takes it.

Files of others in the same folder stay as they are.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from warren.errors import WarrenError
from warren.ha.bundle import RenderedFile


def write_all(folder: Path, files: Sequence[RenderedFile]) -> None:
    staging: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".render-", dir=folder))
        for file in files:
            _write(staging / file.path, file)
        for file in files:
            (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
        for file in files:
            os.replace(staging / file.path, folder / file.path)
    except OSError as error:
        raise WarrenError(f"nothing was written: {error.filename or folder}: {error.strerror}") from error
    finally:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)


def _write(path: Path, file: RenderedFile) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(file.text)
    path.chmod(0o755 if file.executable else 0o644)
