"""The processes of both services: started, killed, and started again whenever one has ended.

Not here: what they do (`service`), who kills them (`faults`).
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

SERVICE = Path(__file__).resolve().with_name("service.py")
LOOK_UP_S = 0.1
AWAY_S = 1.0
"""How long one that has ended stays away."""

STOP_DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Post:
    """A place for a process: its name, and the words it is started with."""

    name: str
    words: tuple[str, ...]


class StaffFailed(Exception):
    """A process ends whatever is done."""


class Staff:
    """Within a `with`, at whose end all processes are stopped in good order."""

    def __init__(self, logs: Path, posts: list[Post]) -> None:
        self.kills: Counter[str] = Counter()
        # exits that nobody asked for, with their codes
        self.unasked: list[tuple[str, int]] = []
        self._logs = logs
        self._posts = {post.name: post for post in posts}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._absent_until: dict[str, float] = {}
        self._dismissed: set[str] = set()
        self._asked: set[int] = set()
        self._lock = threading.Lock()
        self._leaving = threading.Event()
        self._watching = threading.Thread(target=self._watch, name="staff")

    def __enter__(self) -> Self:
        self._logs.mkdir(parents=True, exist_ok=True)
        for post in self._posts.values():
            self._start(post)
        self._watching.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leaving.set()
        self._watching.join()
        for name in self._posts:
            self.dismiss(name)

    def names(self, role: str) -> list[str]:
        return [name for name in self._posts if role in name]

    def kill(self, name: str) -> None:
        """With SIGKILL, wherever it is; another one is there after a moment."""
        self._signal(name, signal.SIGKILL)
        self.kills[name] += 1

    def pause(self, name: str, duration_s: float) -> None:
        """Hold it still in whatever it is doing, and let it go on as if nothing had happened."""
        self._signal(name, signal.SIGSTOP)
        self._leaving.wait(duration_s)
        self._signal(name, signal.SIGCONT)

    def dismiss(self, name: str) -> None:
        """Stop it in good order, for good."""
        with self._lock:
            self._dismissed.add(name)
            process = self._running.pop(name, None)
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise StaffFailed(f"{name} did not end within {STOP_DEADLINE_S:.0f} s of SIGTERM") from None

    def logged(self, words: str) -> int:
        """How many lines of all logs have these words."""
        return sum(log.read_text(errors="replace").count(words) for log in self._logs.glob("*.log"))

    def _signal(self, name: str, number: signal.Signals) -> None:
        with self._lock:
            process = self._running.get(name)
            if process is not None and process.poll() is None:
                if number is signal.SIGKILL:
                    self._asked.add(process.pid)
                os.kill(process.pid, number)

    def _start(self, post: Post) -> None:
        with (self._logs / f"{post.name}.log").open("ab") as log:
            command = [sys.executable, str(SERVICE), *post.words]
            self._running[post.name] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def _watch(self) -> None:
        while not self._leaving.wait(LOOK_UP_S):
            with self._lock:
                for name, process in list(self._running.items()):
                    if process.poll() is not None:
                        self._replace(name, process)

    def _replace(self, name: str, ended: subprocess.Popen[bytes]) -> None:
        now = time.monotonic()
        if name not in self._absent_until:
            self._absent_until[name] = now + AWAY_S
            if ended.pid not in self._asked:
                self.unasked.append((name, int(ended.returncode)))
        elif now >= self._absent_until[name]:
            del self._absent_until[name]
            self._start(self._posts[name])
