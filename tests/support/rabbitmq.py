"""A RabbitMQ server as a child process: Debian's, on free ports of the loopback, in a folder of its own.

Its files are where `make setup` unpacks Debian's packages, or where Debian installs them. Erlang's scripts expect one
fixed place, so a script of this module starts the runtime. It has a port mapper of its own: a node without one would
start one that outlives it.

Invariants: it answers when this exists, and after `start`; after `close` no process of it is left, nor its folder. One
that is started again has the data and the port it had.

Not here: the tests that use it.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.ports import free_port
from warren.client import ClientError, blocking

ROOT = Path(__file__).parents[2]
READY_DEADLINE_S = 120.0
STOP_DEADLINE_S = 60.0
_PLACES = (ROOT / "build/debian/usr/lib", Path("/usr/lib"))
_SERVER = "rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server"
_RUNTIME = "erlang/erts-*/bin"
# schedulers that wait do not spin: the tests have use for the processor
_RUNTIME_OPTIONS = "+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}"


class RabbitMQ:
    """One node, guest/guest; `settings` are lines of its rabbitmq.conf, `plugins` are enabled.

    With a plugin that needs the management (`rabbitmq_shovel_management`), its HTTP API is at `http`, an address,
    and at `http_url`.
    """

    def __init__(self, *settings: str, plugins: Sequence[str] = ()) -> None:
        self._server, self._runtime = _found(_SERVER), _found(_RUNTIME)
        self._folder = Path(tempfile.mkdtemp(prefix="warren-rabbitmq-"))
        self._log = self._folder / "output"
        self.address = ("127.0.0.1", free_port())
        self.http = ("127.0.0.1", free_port())
        self._mapper_port = free_port()
        self._write_files(settings, plugins)
        self._environment = self._make_environment()
        self._mapper = self._spawn(str(self._runtime / "epmd"), "-address", "127.0.0.1")
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        host, port = self.address
        return f"amqp://guest:guest@{host}:{port}/%2F"

    @property
    def http_url(self) -> str:
        host, port = self.http
        return f"http://{host}:{port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "it runs"
        return self._process.pid

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def start(self) -> None:
        """Start the node that was stopped or killed, and wait until it answers."""
        self._process = self._spawn(str(self._server))
        deadline = time.monotonic() + READY_DEADLINE_S
        while not self._answers():
            assert self._process.poll() is None, f"RabbitMQ ended by itself\n{self.log()[-4000:]}"
            assert time.monotonic() < deadline, f"RabbitMQ did not answer\n{self.log()[-4000:]}"
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop it with `rabbitmqctl`; it closes its clients' connections."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End it, and delete its folder."""
        self.kill()
        self._mapper.kill()
        self._mapper.wait()
        shutil.rmtree(self._folder)

    def _end(self, sent: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        try:
            process.wait(STOP_DEADLINE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _spawn(self, *command: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command, env=self._environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def _answers(self) -> bool:
        try:
            blocking.connect(self.url).close()
        except ClientError:
            return False
        return True

    def ctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The output of `rabbitmqctl` for a command."""
        command = [str(self._server.parent / "rabbitmqctl"), *words]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)

    def _write_files(self, settings: tuple[str, ...], plugins: Sequence[str]) -> None:
        if any("management" in plugin for plugin in plugins):
            settings += ("management.tcp.ip = 127.0.0.1", f"management.tcp.port = {self.http[1]}")
        (self._folder / "rabbitmq.conf").write_text("".join(f"{line}\n" for line in settings))
        (self._folder / "enabled_plugins").write_text(f"[{','.join(plugins)}].\n")
        (self._folder / "env.conf").touch()
        runtime = self._folder / "bin" / "erl"
        runtime.parent.mkdir()
        runtime.write_text(f'#!/bin/sh\nexec "{self._runtime}/erlexec" "$@"\n')
        runtime.chmod(0o755)

    def _make_environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self._folder}/bin:{os.environ['PATH']}",
            "HOME": str(self._folder),
            "LANG": "C.UTF-8",
            "ROOTDIR": str(self._runtime.parents[1]),
            "BINDIR": str(self._runtime),
            "EMU": "beam",
            "PROGNAME": "erl",
            "ERL_CRASH_DUMP": f"{self._folder}/crash",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._mapper_port),
            # the script execs the runtime, so that the process can be waited for
            "RUNNING_UNDER_SYSTEMD": "true",
            "RABBITMQ_NODENAME": "test@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": self.address[0],
            "RABBITMQ_NODE_PORT": str(self.address[1]),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": f"{self._folder}/data",
            "RABBITMQ_LOG_BASE": str(self._folder),
            "RABBITMQ_PID_FILE": f"{self._folder}/pid",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{self._folder}/enabled_plugins",
            "RABBITMQ_CONF_ENV_FILE": f"{self._folder}/env.conf",
            "RABBITMQ_CONFIG_FILE": f"{self._folder}/rabbitmq",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _RUNTIME_OPTIONS,
        }


def _found(pattern: str) -> Path:
    for place in _PLACES:
        if found := sorted(place.glob(pattern)):
            return found[-1]
    raise AssertionError(f"no {pattern} below {' or '.join(map(str, _PLACES))}: run `make setup`")
