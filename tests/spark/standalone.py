"""A standalone cluster of Spark on the loopback: a master and two workers, each a process with a Java of its own.

Not here: drivers (`driver_process`).
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from tests.support.ports import free_port

WORKERS = 2
DEADLINE_S = 90.0
SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


class StandaloneCluster:
    """Ready when it is entered, and gone when it is left."""

    def __init__(self, folder: Path, hosts: tuple[str, ...] = ("127.0.0.1",) * WORKERS) -> None:
        """`hosts` are those of its workers, all of them this machine."""
        self._folder = folder
        self._hosts = hosts
        self._port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def work_folders(self) -> list[Path]:
        """Where workers keep the files of their applications."""
        return [self._folder / f"worker{number}" for number in range(WORKERS)]

    def __enter__(self) -> Self:
        try:
            self._start("master", "127.0.0.1", MASTER, "--port", str(self._port), "--webui-port", "0")
            self._await_line("Starting Spark master", 1)
            for number, (folder, host) in enumerate(zip(self.work_folders(), self._hosts, strict=True)):
                options = ["--webui-port", "0", "-c", "1", "-m", "600m", "-d", str(folder), self.url]
                self._start(f"worker{number}", host, WORKER, *options)
            self._await_line("Registering worker", WORKERS)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def _start(self, name: str, host: str, *command: str) -> None:
        environment = os.environ | {
            "SPARK_LOCAL_IP": host,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        }
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [SPARK_CLASS, command[0], "--host", host, *command[1:]],
                    env=environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _await_line(self, text: str, times: int) -> None:
        """Wait until the master has logged this so often."""
        log = self._folder / "master.log"
        deadline = time.monotonic() + DEADLINE_S
        while log.read_text(errors="replace").count(text) < times:
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-4000:]
            time.sleep(0.1)

    def _end(self) -> None:
        """Each leads a process group, in which its executors are."""
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            process.wait(DEADLINE_S)
