"""A real Warren node as a child process, for tests that need one.

Invariant: the node is ready when `NodeProcess` exists, on ports of its own choosing, and a node that does not end with
exit code 0 after SIGTERM fails the test that stops it. A node that is started again has the data directory and the
addresses it had; its log goes on in the same file.

Not here: clusters of nodes, cutting their network (`namespaces`).
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.ports import free_port, peer_port

READY_DEADLINE_S = 120.0
STOP_DEADLINE_S = 40.0
_LISTENERS = ("amqp", "http", "peer")


class NodeProcess:
    """`warren serve` on free ports; `amqp`, `http` and `peer` are (host, port)."""

    COMMAND = (str(Path(sys.executable).with_name("warren")),)

    def __init__(
        self,
        data: Path,
        *options: str,
        configuration: str = "",
        command: Sequence[str] | None = None,
        addresses: Mapping[str, tuple[str, int]] | None = None,
    ) -> None:
        """`command` takes the place of `COMMAND`; without `addresses` it listens on free ports of the loopback."""
        data.mkdir(parents=True, exist_ok=True)
        self.log_path = data / "node.log"
        self.data = data / "data"
        self._command = [*(command or self.COMMAND), "serve"]
        self._options = ["--data", str(self.data), *options]
        self._configuration = data / "node.conf"
        if configuration:
            self._options += ["--config", str(self._configuration)]
            self.configure(configuration)
        self.log_path.write_bytes(b"")
        self.addresses = dict(addresses or {})
        self.start()

    @property
    def amqp(self) -> tuple[str, int]:
        return self.addresses["amqp"]

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def configure(self, configuration: str) -> None:
        """Change the configuration from the next start on; only for a node that began with one."""
        self._configuration.write_text(configuration)

    def start(self) -> None:
        """Start the node that was stopped or killed, and wait until it is ready."""
        self.spawn()
        self.await_ready()

    def await_ready(self) -> None:
        """Wait until a spawned node is ready."""
        facts = self._wait_until_ready()
        self.name = facts["name"]
        self.addresses = {kind: _address(facts[kind]) for kind in _LISTENERS if ":" in facts.get(kind, "")}

    def spawn(self) -> None:
        """Start the process, and wait for nothing."""
        listeners = [word for kind in _LISTENERS for word in (f"--{kind}", self._listen_at(kind))]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._command, *listeners, *self._options], stdout=subprocess.PIPE, stderr=log, text=True
            )

    def _listen_at(self, kind: str) -> str:
        host, port = self.addresses.get(kind) or ("127.0.0.1", peer_port() if kind == "peer" else free_port())
        return f"{host}:{port}"

    def restart(self) -> None:
        """Stop it with SIGTERM, and start it again."""
        self.stop()
        self.start()

    def crash(self) -> None:
        """Kill it, and start it again."""
        self.kill()
        self.start()

    def stop(self) -> None:
        if not self.alive:
            self._close_output()
            raise AssertionError(f"the node ended by itself: {self.process.returncode}\n{self.log()[-4000:]}")
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the node did not drain\n{self.log()[-4000:]}") from None
        self._close_output()
        assert code == 0, f"the node ended with {code}\n{self.log()[-4000:]}"

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        self.process.wait()
        self._close_output()

    def _close_output(self) -> None:
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _wait_until_ready(self) -> dict[str, str]:
        """A timer ends a node that stays silent, which ends the read."""
        assert self.process.stdout is not None
        timer = threading.Timer(READY_DEADLINE_S, self.process.kill)
        timer.start()
        try:
            for line in self.process.stdout:
                word, _, rest = line.partition(" ")
                if word.strip() == "ready":
                    return dict(fact.split("=", 1) for fact in rest.split() if "=" in fact)
        finally:
            timer.cancel()
        self.kill()
        raise AssertionError(f"the node never said it was ready\n{self.log()[-4000:]}")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)
