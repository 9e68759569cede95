"""The processes of both services: started, killed, and started again whenever one has ended.

Who ends unasked may do so only because there is no database or no broker; anything else is the end of the run.

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
NOBODY_THERE = os.EX_UNAVAILABLE
"""What a service ends with that finds no database or no broker."""

TAIL_CHARS = 4000
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
    """A process ended as it must not, or does not end."""


class Staff:
    """Within a `with`, at whose end all processes are stopped in good order."""

    def __init__(self, logs: Path, posts: list[Post]) -> None:
        # how often each found no database or no broker, and ended
        self.found_nobody: Counter[str] = Counter()
        self._failures: list[str] = []
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
            try:
                self.dismiss(name)
            except StaffFailed as failure:
                self._failures.append(str(failure))
        # what went wrong before is the reason to be told
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raise `StaffFailed`, with the end of its log, if a process ended for no reason that is excused."""
        if self._failures:
            raise StaffFailed(self._failures[0])

    def names(self, role: str) -> list[str]:
        return [name for name in self._posts if role in name]

    def leader(self, service: str, job: str) -> str:
        """Which of a service's processes was the last to say that it leads, if it is still there; else nothing."""
        led = [
            (moment, pid, name) for name in self.names(service) for moment, pid in self._moments(name, f"{job}.leads")
        ]
        if not led:
            return ""
        _, pid, name = max(led)
        with self._lock:
            process = self._running.get(name)
            return name if process is not None and process.pid == pid and process.poll() is None else ""

    def kill(self, name: str) -> bool:
        """With SIGKILL, wherever it is, if it is there; another one is after a moment."""
        return self._signal(name, signal.SIGKILL)

    def pause(self, name: str, duration_s: float) -> bool:
        """Hold it still in whatever it is doing, if it is there, and let it go on as if nothing had happened."""
        if not self._signal(name, signal.SIGSTOP):
            return False
        self._leaving.wait(duration_s)
        return self._signal(name, signal.SIGCONT)

    def dismiss(self, name: str) -> None:
        """Stop it in good order, for good."""
        with self._lock:
            self._dismissed.add(name)
            process = self._running.pop(name, None)
        if process is None:
            return
        if process.poll() is not None:
            self._judge(name, process)
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

    def _moments(self, name: str, words: str) -> list[tuple[str, int]]:
        """When a process at this post, and which, has logged this."""
        lines = (self._logs / f"{name}.log").read_text(errors="replace").splitlines()
        fields = [line.split(maxsplit=3) for line in lines if line.endswith(words)]
        return [(f"{day} {hour}", int(pid)) for day, hour, pid, _ in fields]

    def _signal(self, name: str, number: signal.Signals) -> bool:
        """Whether it was there to be hit."""
        with self._lock:
            process = self._running.get(name)
            if process is None or process.poll() is not None:
                return False
            if number is signal.SIGKILL:
                self._asked.add(process.pid)
            os.kill(process.pid, number)
            return True

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
            self._judge(name, ended)
        elif now >= self._absent_until[name]:
            del self._absent_until[name]
            self._start(self._posts[name])

    def _judge(self, name: str, ended: subprocess.Popen[bytes]) -> None:
        if ended.pid in self._asked:
            return
        if ended.returncode == NOBODY_THERE:
            self.found_nobody[name] += 1
            return
        tail = (self._logs / f"{name}.log").read_text(errors="replace")[-TAIL_CHARS:]
        self._failures.append(f"{name} ended with {ended.returncode}, and nobody had asked it to:\n{tail}")
