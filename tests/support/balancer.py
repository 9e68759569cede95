"""A load balancer on a host of its own: Debian's HAProxy and Keepalived, as `warren ha render` has configured them.

Both are children of the test, in the host's network namespace, and end with it. Keepalived has two processes, and the
second does the work: to kill it is to kill both.

Not here: the hosts (`namespaces`), nodes behind it.
"""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from tests.support.debian import environment, program
from tests.support.namespaces import NamespaceWorld
from warren.cli.ha.deployment import Deployment

STOP_DEADLINE_S = 20.0


class BalancerMachine:
    """The balancer of this name in a deployment; `rendered` has a folder for each machine."""

    def __init__(self, world: NamespaceWorld, deployment: Deployment, name: str, rendered: Path) -> None:
        self.name = name
        self._world = world
        self._deployment = deployment
        self._own = rendered / name
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        self.start_haproxy()
        self.start_keepalived()

    def start_haproxy(self) -> None:
        Path(self._deployment.haproxy.run_directory).mkdir(parents=True, exist_ok=True)
        self._start("haproxy", "-db", "-f", str(self._own / "etc/haproxy/haproxy.cfg"))

    def start_keepalived(self) -> None:
        directory = self._own / self._deployment.keepalived.directory.lstrip("/")
        notes = [word for option in ("p", "r", "c", "b") for word in (f"-{option}", str(self._own / f"{option}.pid"))]
        self._start("keepalived", "--dont-fork", "-l", "-D", "-G", "-P", *notes, "-f", f"{directory}/keepalived.conf")

    def kill(self, what: str) -> None:
        """SIGKILL, for `haproxy` or `keepalived` and every process of it."""
        process = self._running.pop(what)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        # the system ends the second process later; a Keepalived that starts before that finds it running
        with suppress(ProcessLookupError):
            while True:
                os.killpg(process.pid, 0)
                time.sleep(0.02)

    def stop(self, what: str) -> None:
        """In good order."""
        process = self._running.pop(what)
        process.terminate()
        process.wait(STOP_DEADLINE_S)

    def close(self) -> None:
        for what in list(self._running):
            self.kill(what)

    def holds(self, address: str) -> bool:
        """Whether the machine has the address."""
        shown = subprocess.run(
            ["ip", "-n", self._world.namespace(self.name), "-br", "address", "show", "dev", "eth0"],
            capture_output=True,
            text=True,
            check=True,
        )
        return f" {address}/" in shown.stdout

    def log(self, what: str = "keepalived") -> str:
        return self._log(what).read_text(errors="replace")

    def _log(self, what: str) -> Path:
        return self._own / f"{what}.log"

    def _start(self, what: str, *options: str) -> None:
        with self._log(what).open("ab") as log:
            self._running[what] = subprocess.Popen(
                self._world.command(self.name, program(what), *options),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment(),
                start_new_session=True,
            )
