"""Prepares one suite: a virtual environment and a fresh copy of its source, under `build/conformance/NAME`.

The environment and the download are made once per content of the requirement files; the source is unpacked anew for
every run, so that no run sees what another left behind.

Not here: running it (`jail.py`).
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from suites import Suite

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / "build" / "conformance"


class NotPrepared(Exception):
    """The packages of a suite could not be installed; the message is the end of pip's output."""


class Workspace:
    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.root = CACHE / suite.name
        self.python = self.root / "venv" / "bin" / "python"
        self.source = self.root / "source"
        self.output = self.root / "output.txt"
        self.outcomes = self.root / "outcomes.jsonl"
        self._requirements = HERE / "requirements" / f"{suite.name}.txt"
        self._source_requirement = HERE / "requirements" / f"{suite.name}.source.txt"

    def prepare(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        if not self._is_current():
            self._install()
        self._unpack()
        self.outcomes.unlink(missing_ok=True)

    def _stamp(self) -> str:
        pinned = self._requirements.read_bytes() + self._source_requirement.read_bytes() + sys.version.encode()
        return hashlib.sha256(pinned).hexdigest()

    def _is_current(self) -> bool:
        stamp = self.root / "stamp"
        return stamp.exists() and stamp.read_text() == self._stamp()

    def _install(self) -> None:
        for stale in ("venv", "download"):
            shutil.rmtree(self.root / stale, ignore_errors=True)
        self._call(sys.executable, "-m", "venv", str(self.root / "venv"))
        pip = (str(self.python), "-m", "pip", "--disable-pip-version-check")
        self._call(*pip, "install", "--quiet", "--require-hashes", "-r", str(self._requirements))
        # Only the suite itself must come as source; what builds it may come ready made.
        distribution = self._source_requirement.read_text().partition("==")[0]
        self._call(
            *pip, "download", "--quiet", "--no-deps", "--no-binary", distribution, "--require-hashes",
            "-d", str(self.root / "download"), "-r", str(self._source_requirement),
        )  # fmt: skip
        (self.root / "stamp").write_text(self._stamp())

    def _call(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NotPrepared(f"{self.suite.name}: {' '.join(command[:4])} failed: {done.stderr.strip()[-600:]}")

    def _unpack(self) -> None:
        shutil.rmtree(self.source, ignore_errors=True)
        unpacked = self.root / "unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)
        (archive,) = (self.root / "download").glob("*.tar.gz")
        with tarfile.open(archive) as content:
            # Early releases of Python 3.11 know no filters; the archive's hash is pinned either way.
            content.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
            content.extractall(unpacked)
        (only_folder,) = unpacked.iterdir()
        only_folder.rename(self.source)
        unpacked.rmdir()
        if self.suite.shadowed_package:
            shutil.rmtree(self.source / self.suite.shadowed_package)
        overlay = HERE / "overlay" / self.suite.name
        if overlay.exists():
            shutil.copytree(overlay, self.source, dirs_exist_ok=True)
