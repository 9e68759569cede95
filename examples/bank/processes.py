"""The processes of both services: started, killed, and started again when they have ended.

A process may exit by itself only because there is no database or no broker. Any other exit fails the run.

Not here: their work (`service`), the faults (`faults`).
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
UNAVAILABLE = os.EX_UNAVAILABLE
"""The exit code of a service without a database or a broker."""

TAIL_CHARS = 4000
LOOK_UP_S = 0.1
AWAY_S = 1.0
"""The time before an ended process is started again."""

STOP_DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A process to run: its name, and its arguments."""

    name: str
    words: tuple[str, ...]


class ProcessFailed(Exception):
    """A process exited unexpectedly, or does not exit."""


class Processes:
    """A context manager; its end stops all processes with SIGTERM."""

    def __init__(self, logs: Path, specs: list[ProcessSpec]) -> None:
        # how often each process exited because there was no database or no broker
        self.unavailable: Counter[str] = Counter()
        self._failures: list[str] = []
        self._logs = logs
        self._specs = {spec.name: spec for spec in specs}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._absent_until: dict[str, float] = {}
        self._stopped: set[str] = set()
        self._asked: set[int] = set()
        self._lock = threading.Lock()
        self._leaving = threading.Event()
        self._watching = threading.Thread(target=self._watch, name="processes")

    def __enter__(self) -> Self:
        self._logs.mkdir(parents=True, exist_ok=True)
        for spec in self._specs.values():
            self._start(spec)
        self._watching.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leaving.set()
        self._watching.join()
        for name in self._specs:
            try:
                self.stop(name)
            except ProcessFailed as failure:
                self._failures.append(str(failure))
        # an exception from the block is the reason to report
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raise `ProcessFailed`, with the end of the log, if a process exited for a reason that is not excused."""
        if self._failures:
            raise ProcessFailed(self._failures[0])

    def names(self, role: str) -> list[str]:
        return [name for name in self._specs if role in name]

    def leader(self, service: str, job: str) -> str:
        """The service's process that was the last to log that it leads, if it is running; else an empty string."""
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
        """Kill the process with SIGKILL, if it is running; it is started again after `AWAY_S`."""
        return self._signal(name, signal.SIGKILL)

    def pause(self, name: str, duration_s: float) -> bool:
        """Suspend the process with SIGSTOP, if it is running, and continue it later."""
        if not self._signal(name, signal.SIGSTOP):
            return False
        self._leaving.wait(duration_s)
        return self._signal(name, signal.SIGCONT)

    def stop(self, name: str) -> None:
        """Stop the process with SIGTERM and do not start it again."""
        with self._lock:
            self._stopped.add(name)
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
            raise ProcessFailed(f"{name} did not end within {STOP_DEADLINE_S:.0f} s of SIGTERM") from None

    def logged(self, words: str) -> int:
        """How often these words are in all logs."""
        return sum(log.read_text(errors="replace").count(words) for log in self._logs.glob("*.log"))

    def _moments(self, name: str, words: str) -> list[tuple[str, int]]:
        """The times and pids of log lines that end with these words."""
        lines = (self._logs / f"{name}.log").read_text(errors="replace").splitlines()
        fields = [line.split(maxsplit=3) for line in lines if line.endswith(words)]
        return [(f"{day} {hour}", int(pid)) for day, hour, pid, _ in fields]

    def _signal(self, name: str, number: signal.Signals) -> bool:
        """True if the process was running and got the signal."""
        with self._lock:
            process = self._running.get(name)
            if process is None or process.poll() is not None:
                return False
            if number is signal.SIGKILL:
                self._asked.add(process.pid)
            os.kill(process.pid, number)
            return True

    def _start(self, spec: ProcessSpec) -> None:
        with (self._logs / f"{spec.name}.log").open("ab") as log:
            command = [sys.executable, str(SERVICE), *spec.words]
            self._running[spec.name] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

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
            self._start(self._specs[name])

    def _judge(self, name: str, ended: subprocess.Popen[bytes]) -> None:
        if ended.pid in self._asked:
            return
        if ended.returncode == UNAVAILABLE:
            self.unavailable[name] += 1
            return
        tail = (self._logs / f"{name}.log").read_text(errors="replace")[-TAIL_CHARS:]
        self._failures.append(f"{name} ended with {ended.returncode}, but was neither killed nor stopped:\n{tail}")
