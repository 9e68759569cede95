"""A Celery worker as a process group that can be stopped with SIGTERM or killed with SIGKILL.

Not here: its tasks (`jobs.py`).
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.deadlines import eventually

PROJECT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0


class WorkerProcess:
    """Two child processes (prefork), all of Celery's conversations with its broker left on: mingle, gossip, events."""

    def __init__(self, environment: Mapping[str, str], log: Path, name: str) -> None:
        self._log = log
        self.hostname = f"{name}@localhost"
        options = ["--pool=prefork", "--concurrency=2", "--loglevel=INFO", "--events", f"--hostname={self.hostname}"]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "tests.celery.jobs", "worker", *options],
                cwd=PROJECT,
                env={**os.environ, **environment, "C_FORCE_ROOT": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        eventually(self._is_ready, f"{self.hostname} became ready")

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, f"the worker ended by itself\n{self.log()[-4000:]}"
        return f"{self.hostname} ready." in self.log()

    def has_received(self, task_id: str) -> bool:
        return f"[{task_id}] received" in self.log()

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """Kill the worker and its children at once: none of them closes its connection."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"the worker did not stop\n{self.log()[-4000:]}") from None
