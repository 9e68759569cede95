"""A PostgreSQL server of its own for each service, in a temporary folder.

PostgreSQL does not run as root; if this program runs as root, the server runs as the user `nobody`.

Not here: the tables (`teller`, `core_bank`).
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

USER = "bank"
DATABASE = "postgres"
DEADLINE_S = 60.0
SETTINGS = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "80", "jit": "off"}


class DatabaseFailed(Exception):
    """PostgreSQL is not installed, or does not start."""


class Database:
    """A context manager; its end stops the server and deletes its data. Every local user has full access."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._programs = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
        self._folder = Path(tempfile.mkdtemp(prefix=f"bank-{name}-"))
        self._as_nobody: list[str] = []
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if self._programs is None:
            raise DatabaseFailed("there is no PostgreSQL in /usr/lib/postgresql; install postgresql")
        if os.geteuid() == 0:
            shutil.chown(self._folder, "nobody", "nogroup")
            self._as_nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        words = ["-D", str(self._folder / "data"), "-U", USER, "-A", "trust", "-N", "-E", "UTF8", "--locale=C"]
        made = subprocess.run(self._command("initdb", *words), capture_output=True, text=True)
        if made.returncode:
            raise DatabaseFailed(made.stderr)
        self._port = _free_port()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(DEADLINE_S)
        shutil.rmtree(self._folder)

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://{USER}@127.0.0.1:{self._port}/{DATABASE}"

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(host="127.0.0.1", port=self._port, user=USER, dbname=DATABASE, autocommit=True)

    def patiently(self, ask: Callable[[], Any]) -> Any:
        """The result of a query, repeated while the server is down."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                return ask()
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def start(self) -> None:
        options = SETTINGS | {"port": str(self._port)}
        chosen = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        command = self._command("postgres", "-D", str(self._folder / "data"), *chosen)
        with (self._folder / "log").open("ab") as log:
            # in a session of its own: Ctrl-C goes to the run alone, which then stops the server
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self._await_answer()

    def crash(self) -> None:
        """Stop at once without a shutdown (`immediate`, SIGQUIT). Unlike a power cut, the page cache survives."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(DEADLINE_S)

    def cut_connections(self, share: float) -> int:
        """Terminate a random share of all connections; the count of them."""
        with self.connect() as connection:
            cut = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < %s",
                [share],
            )
            return len(cut.fetchall())

    def dump(self, path: Path) -> None:
        """Dump the database as SQL, or the error of the dump."""
        words = ["-h", "127.0.0.1", "-p", str(self._port), "-U", USER, DATABASE]
        with path.open("wb") as file:
            subprocess.run(self._command("pg_dump", *words), stdout=file, stderr=file, stdin=subprocess.DEVNULL)

    def _await_answer(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError as trouble:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log = (self._folder / "log").read_text()
                    raise DatabaseFailed(f"the database of {self.name} does not answer: {trouble}\n{log}") from trouble
                time.sleep(0.05)

    def _command(self, program: str, *words: str) -> list[str]:
        return [*self._as_nobody, str((self._programs or Path()) / program), *words]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
