"""The two brokers under comparison, each private, on free ports, with data that is thrown away.

    with warren() as broker: …      a node of this checkout (`make setup` first)
    with rabbitmq() as broker: …    Debian's rabbitmq-server; its node name, cookie, port mapper and folders are its own

Both are stopped when the block ends, whatever happened in it. `Broker.pid` is the process whose CPU and memory
count: for RabbitMQ, beam.

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from measure import raise_open_file_limit
from wire import Connection, Refused

PROJECT = pathlib.Path(__file__).resolve().parent.parent
WARREN = PROJECT / ".venv" / "bin" / "warren"
LISTENERS = ("--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--peer", "127.0.0.1:0")
READY_LIMIT_S = 60
STOP_LIMIT_S = 30
OPEN_FILES = 20_000


class NotAvailable(Exception):
    """A broker that cannot be started here; the message says what to install or run."""


@dataclass(frozen=True)
class Broker:
    name: str
    address: tuple[str, int]
    pid: int


@contextlib.contextmanager
def warren() -> Iterator[Broker]:
    if not WARREN.exists():
        raise NotAvailable(f"{WARREN} is missing: run `make setup` first")
    _prepare_process()
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as folder, open(f"{folder}/log", "wb") as log:
        process = subprocess.Popen(
            [WARREN, "serve", *LISTENERS, "--data", f"{folder}/data"],
            stdout=subprocess.PIPE,
            stderr=log,
        )
        try:
            yield Broker("Warren", _ready_address(process, pathlib.Path(log.name)), process.pid)
        finally:
            _stop(process, process.pid)


def _prepare_process() -> None:
    raise_open_file_limit(OPEN_FILES)
    # SIGTERM must unwind the blocks that stop the brokers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def _ready_address(process: subprocess.Popen[bytes], log: pathlib.Path) -> tuple[str, int]:
    assert process.stdout is not None
    deadline = time.monotonic() + READY_LIMIT_S
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(deadline - time.monotonic()):
            line = process.stdout.readline()
            if found := re.search(rb"^ready .*\bamqp=(\S+):(\d+)", line):
                return found[1].decode(), int(found[2])
            if not line:
                break
    raise NotAvailable(f"the Warren node did not become ready: {log.read_text(errors='replace')[-600:]}")


@contextlib.contextmanager
def rabbitmq() -> Iterator[Broker]:
    server = _rabbitmq_server()
    _prepare_process()
    with tempfile.TemporaryDirectory(prefix="rabbitmq-bench-") as folder:
        port, distribution_port, mapper_port = _free_ports(3)
        pathlib.Path(folder, "rabbitmq.conf").touch()
        pathlib.Path(folder, "enabled_plugins").write_text("[].\n")
        pathlib.Path(folder, "env.conf").touch()
        environment = _rabbitmq_environment(folder, port, distribution_port, mapper_port)
        with open(f"{folder}/output", "wb") as output:
            mapper = subprocess.Popen(
                ["epmd", "-address", "127.0.0.1", "-port", str(mapper_port)], stdout=output, stderr=output
            )
            process = subprocess.Popen([server], env=environment, stdout=output, stderr=output, start_new_session=True)
        pid_file = pathlib.Path(folder, "pid")
        try:
            _await(lambda: _answers(("127.0.0.1", port)), process, pathlib.Path(folder, "output"))
            yield Broker("RabbitMQ", ("127.0.0.1", port), int(pid_file.read_text()))
        finally:
            _stop(process, int(pid_file.read_text()) if pid_file.exists() else process.pid)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            _stop(mapper, mapper.pid)


def _rabbitmq_server() -> pathlib.Path:
    # The packaged wrapper in /usr/sbin changes to the user rabbitmq, who may not write where we do.
    found = sorted(pathlib.Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    if not found or shutil.which("epmd") is None:
        raise NotAvailable("RabbitMQ is not installed: apt-get install rabbitmq-server")
    return found[-1]


def _rabbitmq_environment(folder: str, port: int, distribution_port: int, mapper_port: int) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": folder,
        "LANG": "C.UTF-8",
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(mapper_port),
        "RABBITMQ_MNESIA_BASE": folder,
        "RABBITMQ_LOG_BASE": folder,
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
        time.sleep(0.2)


def _stop(process: subprocess.Popen[bytes], pid: int) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout:
        process.stdout.close()


BROKERS: dict[str, Callable[[], contextlib.AbstractContextManager[Broker]]] = {"warren": warren, "rabbitmq": rabbitmq}
