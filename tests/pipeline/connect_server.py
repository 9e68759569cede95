"""A server of Spark Connect on the loopback, in a process group of its own.

Not here: a cluster behind it (`tests.spark.standalone`).
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

SPARK_SUBMIT = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
DEADLINE_S = 180.0


class ConnectServer:
    """It answers when it is entered, and is gone when it is left."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "connect.log"
        self._port = free_port()
        self._folder = folder

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        conf = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            "spark.ui.enabled": "false",
        }
        settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [SPARK_SUBMIT, "--class", SERVER, "--master", "local[2]", "--driver-memory", "800m", *settings],
                cwd=self._folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._await_ready()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while "Spark Connect server started at" not in (said := self._log.read_text(errors="replace")):
            assert self._process.poll() is None, said[-4000:]
            assert time.monotonic() < deadline, said[-4000:]
            time.sleep(0.1)

    def _end(self) -> None:
        os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait(DEADLINE_S)
