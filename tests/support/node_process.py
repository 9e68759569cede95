"""A real Warren node as a child process, for tests that need one.

Invariant: the node is ready when `NodeProcess` exists, on ports of its own choosing, and a node that does not end with
exit code 0 after SIGTERM fails the test that stops it.

Not here: clusters of nodes, killing them, cutting their network.
"""

import signal
import subprocess
import sys
import threading
from pathlib import Path

READY_DEADLINE_S = 30.0
STOP_DEADLINE_S = 20.0


class NodeProcess:
    """`warren serve` on free ports; `amqp`, `http` and `peer` are (host, port)."""

    def __init__(self, data: Path, *options: str) -> None:
        data.mkdir(parents=True, exist_ok=True)
        self.log_path = data / "node.log"
        listeners = [word for kind in ("amqp", "http", "peer") for word in (f"--{kind}", "127.0.0.1:0")]
        command = [str(Path(sys.executable).with_name("warren")), "serve", *listeners, "--data", str(data / "data")]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=log, text=True)
        facts = self._wait_until_ready()
        self.name = facts["name"]
        self.addresses = {
            kind: _address(facts[kind]) for kind in ("amqp", "http", "peer") if ":" in facts.get(kind, "")
        }

    @property
    def amqp(self) -> tuple[str, int]:
        return self.addresses["amqp"]

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def stop(self) -> None:
        if self.process.poll() is not None:
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
