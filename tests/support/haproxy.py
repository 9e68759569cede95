"""Debian's HAProxy as a child process, in front of the servers that a test starts.

Invariant: it listens when this exists; after `close` no process of it is left.

Not here: the configuration that Warren writes for it (`warren.ha`).
"""

import socket
import subprocess
import time
from pathlib import Path

from tests.support.debian import environment, program
from tests.support.ports import free_port

DEADLINE_S = 20.0


class HAProxy:
    """One, with these lines after its `defaults`; `{port}` stands for the port at `address`."""

    def __init__(self, folder: Path, *lines: str) -> None:
        self.address = ("127.0.0.1", free_port())
        self._control = folder / "haproxy.sock"
        configuration = folder / "haproxy.cfg"
        begin = [
            "global",
            f"    stats socket {self._control} level admin",
            "defaults",
            "    timeout connect 5s",
            "    timeout client 1h",
            "    timeout server 1h",
            # without it the timeout of a check is the interval between checks
            "    timeout check 20s",
        ]
        text = "\n".join([*begin, *lines, ""])
        configuration.write_text(text.replace("{port}", f"127.0.0.1:{self.address[1]}"))
        self._log = folder / "haproxy.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [program("haproxy"), "-db", "-f", str(configuration)], stdout=log, stderr=log, env=environment()
            )
        self._await(self._listens)

    def states(self) -> dict[str, str]:
        """The state of each server: `UP`, `DOWN`, `NOLB` and the like, by backend and name."""
        rows = [row.split(",") for row in self._ask("show stat").splitlines() if row and not row.startswith("#")]
        return {f"{row[0]}/{row[1]}": row[17] for row in rows if row[1] not in ("FRONTEND", "BACKEND")}

    def await_state(self, server: str, state: str) -> None:
        self._await(lambda: self.states().get(server, "").startswith(state))

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def _listens(self) -> bool:
        try:
            socket.create_connection(self.address, timeout=1).close()
        except OSError:
            return False
        return True

    def _ask(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(DEADLINE_S)
            control.connect(str(self._control))
            control.sendall(command.encode() + b"\n")
            return control.makefile().read()

    def _await(self, condition: object) -> None:
        assert callable(condition)
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert self.process.poll() is None, f"HAProxy ended by itself\n{self.log()}"
            assert time.monotonic() < deadline, f"it never happened\n{self.log()}"
            time.sleep(0.02)
