"""Chooses, when an interpreter of .venv starts, where `warren` is imported from.

The compiled copy in build/compiled comes first when it was made from exactly these sources by this interpreter;
otherwise, and always with WARREN_COMPILED=0 in the environment, the sources in src/ are imported. So a stale compiled
module is never used, and the same command works with either.

Not here: making the copy (tools/compile_core.py).
"""

import hashlib
import os
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
COMPILED = ROOT / "build" / "compiled"
STAMP = COMPILED / "fingerprint"

# The pure core (the codec and the broker), and the client's machine.
COMPILED_NAMES = (
    "errors.py",
    "wire",
    "broker",
    "client/machine",
)


def compiled_modules(source: Path = SOURCE) -> list[Path]:
    """The files that are compiled, in a fixed order."""
    package = source / "warren"
    found: list[Path] = []
    for name in COMPILED_NAMES:
        path = package / name
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.exists() else []
    return found


def toolchain() -> bytes:
    """The toolchain: the interpreter, the compiler's lock file, the build scripts."""
    scripts = [ROOT / "requirements" / "build.txt", ROOT / "tools" / "compile_core.py", ROOT / "tools" / "c_units.py"]
    parts = [f"{sys.implementation.cache_tag} {sys.platform}\n".encode(), *(path.read_bytes() for path in scripts)]
    return hashlib.sha256(b"".join(parts)).digest()


def fingerprint(source: Path = SOURCE) -> str:
    """A digest of the toolchain, and of the name and text of every compiled module."""
    digest = hashlib.sha256(toolchain())
    for path in compiled_modules(source):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(source)} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()


def is_current() -> bool:
    """True if build/compiled was made from the current sources."""
    try:
        return STAMP.read_text() == fingerprint()
    except OSError:
        return False


def partly_compiled() -> list[str]:
    """The partly compiled packages."""
    return sorted({name.partition("/")[0] for name in COMPILED_NAMES if "/" in name})


def shell_names() -> list[str]:
    """The files of src/warren that are not compiled; the compiled copy links to them."""
    folders = ["", *(f"{name}/" for name in partly_compiled())]
    entries = [folder + entry for folder in folders for entry in _entries(SOURCE / "warren" / folder)]
    return sorted(set(entries) - set(COMPILED_NAMES) - set(partly_compiled()))


def _entries(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir() if entry.name != "__pycache__"] if folder.is_dir() else []


def link_shell(package: Path) -> None:
    """Link the uncompiled rest of the package into a compiled copy."""
    for name in shell_names():
        link = package / name
        if not link.is_symlink():
            with suppress(FileExistsError):  # another interpreter, starting at the same time, made it
                link.parent.mkdir(exist_ok=True)
                link.symlink_to(os.path.relpath(SOURCE / "warren" / name, link.parent))


def _choose() -> None:
    sys.path.insert(0, str(SOURCE))
    if os.environ.get("WARREN_COMPILED") == "0" or not is_current():
        return
    try:
        link_shell(COMPILED / "warren")
    except OSError:
        return
    sys.path.insert(0, str(COMPILED))


_choose()
