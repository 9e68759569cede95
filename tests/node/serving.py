"""`warren serve` as a child process, with any options, environment and limits, and everything it printed.

Not here: a node with default options (`tests.support.node_process`).
"""

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tests.support.deadlines import eventually

DEADLINE_S = 120.0
COMMAND = [sys.executable, "-m", "warren.cli.main"]


class Serving:
    """A node that has printed its ready line."""

    def __init__(
        self,
        directory: Path,
        *options: str,
        configuration: str = "",
        environment: Mapping[str, str] | None = None,
        descriptors: int = 0,
        command: list[str] | None = None,
    ) -> None:
        config = directory / "node.conf"
        config.write_text(configuration)
        data = [] if "--data" in options else ["--data", str(directory / "data")]
        self._log_path = directory / "node.log"
        with self._log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*(command or COMMAND), "serve", "--config", str(config), *data, *options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **(environment or {})},
                preexec_fn=partial(_limit_descriptors, descriptors) if descriptors else None,
            )
        assert self.process.stdout is not None
        self.ready_line = self.process.stdout.readline()
        assert self.ready_line, f"the node is not ready: {self.log()}"

    def address(self, protocol: str = "amqp") -> tuple[str, int]:
        found = re.search(rf" {protocol}=(\S+):(\d+)", self.ready_line)
        assert found is not None, self.ready_line
        return found[1], int(found[2])

    def log(self) -> str:
        return self._log_path.read_text(errors="replace")

    def events(self, name: str) -> list[str]:
        return [line for line in self.log().splitlines() if f" event={name}" in line]

    def wait_for(self, condition: Callable[[], object]) -> None:
        eventually(condition, lambda: f"it never happened; the log is\n{self.log()}", pause_s=0.01)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        """The exit code, when the node has ended; it must have printed nothing after the first line."""
        code = self.process.wait(DEADLINE_S)
        assert self.process.stdout is not None
        assert self.process.stdout.read() == ""
        return code

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.exit_code()

    def cpu_s(self) -> float:
        return cpu_s(self.process)

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def end(self) -> None:
        """End the node if the test has not."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def cpu_s(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> float:
    """The CPU time that a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _limit_descriptors(count: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
