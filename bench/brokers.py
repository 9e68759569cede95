"""The two brokers under comparison, each private, on free ports, with data that is thrown away.

    with warren() as broker: …      a node of this checkout (`make setup` first)
    with checkout(DIR) as broker: … a node of another checkout, to compare two versions
    with rabbitmq() as broker: …    Debian's rabbitmq-server; its node name, cookie, port mapper and folders are its own
    with node("warren") as made: …  the same, to be started, stopped, killed and started again on the same data

All are stopped when the block ends, also by an exception. `Broker.pid` is the process that is measured: for RabbitMQ,
beam. Their data is in the system's folder for temporary files, which TMPDIR names.

Not here: the load (`load.py`).
"""

import contextlib
import os
import pathlib
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from measure import raise_open_file_limit
from wire import Connection, Refused

PROJECT = pathlib.Path(__file__).resolve().parent.parent
WARREN = PROJECT / ".venv" / "bin" / "warren"
LISTENERS = ("--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--peer", "127.0.0.1:0")
READY_LIMIT_S = 300
STOP_LIMIT_S = 120
OPEN_FILES = 20_000
INSTALL_RABBITMQ = "RabbitMQ is not installed: apt-get install rabbitmq-server"


class NotAvailable(Exception):
    """A broker that cannot be started here; the message says what to install or run."""


@dataclass(frozen=True)
class Broker:
    name: str
    address: tuple[str, int]
    pid: int
    # of its HTTP API, where that is served
    http: tuple[str, int] | None = None


class Node(ABC):
    """A broker and its data. Settings are lines of a rabbitmq.conf, which both understand."""

    def __init__(self, folder: pathlib.Path, settings: tuple[str, ...]) -> None:
        self.data = folder / "data"
        self._folder = folder
        self._output = folder / "output"
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "rabbitmq.conf").write_text("".join(f"{line}\n" for line in settings))

    @abstractmethod
    def start(self) -> Broker:
        """Returns when clients can connect."""

    def stop(self) -> None:
        """End it with SIGTERM."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def restart(self) -> Broker:
        """Start it again after another program has killed it."""
        self.kill()
        return self.start()

    def close(self) -> None:
        self.stop()

    def _end(self, sent: signal.Signals) -> None:
        process, self._process = self._process, None
        if process:
            _end(process, self._pid(process), sent)

    def _pid(self, process: subprocess.Popen[bytes]) -> int:
        return process.pid


class WarrenNode(Node):
    name = "Warren"
    program = WARREN

    def start(self) -> Broker:
        command = [
            str(available(self.program)),
            "serve",
            *LISTENERS,
            "--data",
            str(self.data),
            "--config",
            f"{self._folder}/rabbitmq.conf",
        ]
        with open(self._output, "ab") as output:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=output)
        address, http = _ready_addresses(self._process, self._output)
        return Broker(self.name, address, self._process.pid, http)


def available(program: pathlib.Path) -> pathlib.Path:
    if not program.exists():
        raise NotAvailable(f"{program} is missing: run `make setup` first")
    return program


def program_of(directory: pathlib.Path) -> pathlib.Path:
    """The command `warren` of another checkout."""
    return directory.resolve() / ".venv" / "bin" / "warren"


def _ready_addresses(process: subprocess.Popen[bytes], log: pathlib.Path) -> tuple[tuple[str, int], tuple[str, int]]:
    """The addresses of AMQP and of HTTP."""
    assert process.stdout is not None
    deadline = time.monotonic() + READY_LIMIT_S
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(deadline - time.monotonic()):
            line = process.stdout.readline()
            if found := re.search(rb"^ready .*\bamqp=(\S+):(\d+) http=(\S+):(\d+)", line):
                return (found[1].decode(), int(found[2])), (found[3].decode(), int(found[4]))
            if not line:
                break
    raise NotAvailable(f"the Warren node did not become ready: {log.read_text(errors='replace')[-600:]}")


class PortMapper:
    """Erlang's epmd, by which nodes of one cluster find one another; its folder has their cookie."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        (self.port,) = _free_ports(1)
        if shutil.which("epmd") is None:
            raise NotAvailable(INSTALL_RABBITMQ)
        command = ["epmd", "-address", "127.0.0.1", "-port", str(self.port)]
        with open(folder / "epmd-output", "ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        _end(self._process, self.pid, signal.SIGTERM)


class RabbitNode(Node):
    def __init__(
        self, folder: pathlib.Path, settings: tuple[str, ...], name: str = "bench", mapper: PortMapper | None = None
    ) -> None:
        """Does not close a port mapper that it was given."""
        super().__init__(folder, settings)
        self._server = _rabbitmq_server()
        self._pid_file = folder / "pid"
        (folder / "enabled_plugins").write_text("[].\n")
        (folder / "env.conf").touch()
        self.data.mkdir()
        self._owns_mapper = mapper is None
        self._mapper = mapper or PortMapper(folder)
        self.environment = _rabbitmq_environment(folder, name, *_free_ports(2), self._mapper)

    def start(self) -> Broker:
        self._pid_file.unlink(missing_ok=True)
        with open(self._output, "ab") as output:
            self._process = subprocess.Popen(
                [self._server], env=self.environment, stdout=output, stderr=output, start_new_session=True
            )
        address = ("127.0.0.1", int(self.environment["RABBITMQ_NODE_PORT"]))
        _await(lambda: _answers(address), self._process, self._output)
        return Broker("RabbitMQ", address, int(self._pid_file.read_text()))

    def tool(self, name: str) -> str:
        """One of the programs beside the server, to be run in this node's environment."""
        return str(self._server.with_name(name))

    def close(self) -> None:
        super().close()
        if self._owns_mapper:
            self._mapper.close()

    def _pid(self, process: subprocess.Popen[bytes]) -> int:
        return int(self._pid_file.read_text()) if self._pid_file.exists() else process.pid

    def _end(self, sent: signal.Signals) -> None:
        process = self._process
        super()._end(sent)
        if process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _rabbitmq_server() -> pathlib.Path:
    # The packaged wrapper in /usr/sbin changes to the user rabbitmq, who may not write where we do.
    found = sorted(pathlib.Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    if not found:
        raise NotAvailable(INSTALL_RABBITMQ)
    return found[-1]


def _rabbitmq_environment(
    folder: pathlib.Path, name: str, port: int, distribution_port: int, mapper: PortMapper
) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(mapper.folder),
        "LANG": "C.UTF-8",
        "RABBITMQ_NODENAME": f"{name}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(mapper.port),
        "RABBITMQ_MNESIA_BASE": f"{folder}/data",
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_PID_FILE": f"{folder}/pid",
        "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
        "RABBITMQ_CONF_ENV_FILE": f"{folder}/env.conf",
        "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        listeners = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]


def _answers(address: tuple[str, int]) -> bool:
    try:
        Connection(address, timeout_s=5).close()
    except (OSError, Refused):
        return False
    return True


def _await(condition: Callable[[], bool], process: subprocess.Popen[bytes], output: pathlib.Path) -> None:
    deadline = time.monotonic() + READY_LIMIT_S
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            raise NotAvailable(f"RabbitMQ did not start: {output.read_text(errors='replace')[-600:]}")
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes], pid: int, sent: signal.Signals) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sent)
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout:
        process.stdout.close()


NODES: dict[str, type[Node]] = {"warren": WarrenNode, "rabbitmq": RabbitNode}


@contextlib.contextmanager
def node(name: str, *settings: str) -> Iterator[Node]:
    """A node that is not started."""
    with own_folder(name) as folder:
        made = NODES[name](folder, settings)
        try:
            yield made
        finally:
            made.close()


@contextlib.contextmanager
def own_folder(name: str) -> Iterator[pathlib.Path]:
    """A folder for a broker's data; deleted when the block ends."""
    raise_open_file_limit(OPEN_FILES)
    # SIGTERM must unwind the blocks that stop the brokers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix=f"{name}-bench-") as folder:
        yield pathlib.Path(folder)


@contextlib.contextmanager
def warren() -> Iterator[Broker]:
    with node("warren") as made:
        yield made.start()


@contextlib.contextmanager
def checkout(directory: pathlib.Path) -> Iterator[Broker]:
    with own_folder("warren") as folder:
        made = WarrenNode(folder, ())
        made.name, made.program = directory.name, program_of(directory)
        try:
            yield made.start()
        finally:
            made.close()


@contextlib.contextmanager
def rabbitmq() -> Iterator[Broker]:
    with node("rabbitmq") as made:
        yield made.start()


BROKERS: dict[str, Callable[[], contextlib.AbstractContextManager[Broker]]] = {"warren": warren, "rabbitmq": rabbitmq}
