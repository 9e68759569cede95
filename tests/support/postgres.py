"""A PostgreSQL server as a child process, in a folder of its own, on a free port of the loopback.

PostgreSQL does not run as root; if the tests do, it runs as the user `nobody`. It has no log but its standard error,
does not flush unless it is `durable` (for benchmarks), and its folder is deleted with the server.

Not here: the driver for Java (`JDBC_DRIVER`), which Spark loads.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
USER = "warren"
DATABASE = "postgres"
DEADLINE_S = 60.0
_JAR = "usr/share/java/postgresql.jar"
JDBC_DRIVER = next((path for path in (ROOT / "build/debian" / _JAR, Path("/") / _JAR) if path.exists()), Path(_JAR))
_SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "40", "shared_buffers": "1MB", "jit": "off"}
_DURABLE = {"fsync": "on", "full_page_writes": "on", "max_connections": "40", "shared_buffers": "128MB"}


class Postgres:
    """It answers when this exists; every user of the machine has all rights in it."""

    def __init__(self, *, durable: bool = False) -> None:
        self._programs = max(Path("/usr/lib/postgresql").glob("*/bin"))
        self._folder = Path(tempfile.mkdtemp(prefix="warren-postgres-"))
        self._as_nobody: list[str] = []
        if os.geteuid() == 0:
            shutil.chown(self._folder, "nobody", "nogroup")
            self._as_nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        data = self._folder / "data"
        self._run("initdb", "-D", str(data), "-U", USER, "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
        self.port = free_port()
        options = {"port": str(self.port), "listen_addresses": "127.0.0.1", "unix_socket_directories": ""} | _SETTINGS
        options |= _DURABLE if durable else {}
        chosen = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("wb") as log:
            self.process = subprocess.Popen(self._command("postgres", "-D", str(data), *chosen), stdout=log, stderr=log)
        self._await_answer()

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{DATABASE}"

    def execute(self, statements: str) -> None:
        connection = ["-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-v", "ON_ERROR_STOP=1", "-q", DATABASE]
        self._run("psql", *connection, text=statements)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(DEADLINE_S)
        shutil.rmtree(self._folder)

    def _await_answer(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        command = self._command("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port))
        while subprocess.run(command, check=False).returncode:
            log = (self._folder / "log").read_text()
            assert self.process.poll() is None, log
            assert time.monotonic() < deadline, log
            time.sleep(0.05)

    def _run(self, program: str, *arguments: str, text: str = "") -> None:
        done = subprocess.run(
            self._command(program, *arguments), input=text, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [*self._as_nobody, str(self._programs / program), *arguments]
