"""A Spark session for a job: on this machine, on a cluster, or on a Spark Connect server.

    local[*]  local[N]  local[N,F]          on this machine, on all cores or on N, tasks tried F times
    spark://HOST:PORT[,HOST:PORT…]          a standalone cluster
    yarn   k8s://https://HOST:PORT          these, as the environment configures them
    sc://HOST[:PORT]                        a Spark Connect server

Problems with Java or the master are found before Spark starts, because Spark reports them late and at length. A job
uses only the session and no Java objects, so it also runs through Connect.

Spark's log is off, and its Java's standard error is captured: the error of a job is one sentence (`pipeline.errors`).
`spark.log.level` brings both back.

Not here: the jobs.
"""

import importlib.util
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Final

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from warren.pipeline.errors import PipelineError, sentence
from warren.spark.java import JavaError, java_version

MASTERS: Final = re.compile(
    r"local(\[(\*|[1-9]\d*)(\s*,\s*[1-9]\d*)?\])?"
    r"|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|spark://[^/,\s:]+:\d+(,[^/,\s:]+:\d+)*"
    r"|yarn|k8s://\S+"
    r"|sc://[^/\s:]+(:\d+)?(/.*)?"
)
OF_THIS_PYTHON: Final = ("local", "spark://")
"""Masters whose tasks use the Python at the path of this one, unless PYSPARK_PYTHON is set.

By default Spark takes any `python3`, which need not have Warren. Containers bring their own.
"""
CONNECT_PORT: Final = 15002
CONNECT_NEEDS: Final = ("pandas", "grpc_status", "google.rpc", "zstandard")
REACH_S: Final = 5.0
STANDARD_ERROR: Final = 2
ENDED: Final = re.compile(r'(?:Exception in thread "main" (?:[\w.]+: )*|Error: )?((?:Invalid|Could not) .+)')
ENDING_S: Final = 0.5
JAVA_ENDED: Final = (
    "the Java behind Spark has ended; unless it was stopped, the machine may have too little memory for it"
)
SESSION: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.session.timeZone": "UTC",
}


QUERY_LOGS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""The loggers to which PySpark writes every error of a query, with its plan, before it raises it."""


@contextmanager
def running(
    name: str, master: str = "local[*]", memory: str = "2g", conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session for the body, stopped after it; Spark's errors become one sentence."""
    spark = start(name, master, memory, conf)
    try:
        yield spark
    except (PySparkException, OSError, ValueError, RuntimeError) as error:
        raise _without_log(spark, error) from error
    except Exception as error:
        # a Java error is one of py4j, which belongs to Spark and is not imported here
        if type(error).__module__.split(".")[0] != "py4j":
            raise
        raise _without_log(spark, error) from error
    finally:
        stop(spark)


def start(
    name: str, master: str = "local[*]", memory: str = "2g", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """A session; a `PipelineError` if Java or the master is missing."""
    if MASTERS.fullmatch(master) is None:
        raise PipelineError(
            f"{master!r} is no master of Spark: local[*], spark://HOST:PORT, yarn, k8s://… and sc://HOST are"
        )
    options = SESSION | dict(conf or {})
    if options["spark.log.level"] == "OFF":
        for log in QUERY_LOGS:
            PySparkLogger.getLogger(log).setLevel("CRITICAL")
    if master.startswith("sc://"):
        return _connected(name, master, options)
    try:
        java_version()
    except JavaError as error:
        raise PipelineError(str(error)) from None
    if master.startswith("spark://"):
        _reach(master, [_address(each) for each in master.removeprefix("spark://").split(",")])
    if master.startswith(OF_THIS_PYTHON):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.Builder().appName(name).master(master).config("spark.driver.memory", memory)
    for key, value in options.items():
        builder = builder.config(key, value)
    with tempfile.TemporaryFile() as said:
        try:
            with _standard_error(said if options["spark.log.level"] == "OFF" else None):
                spark = builder.getOrCreate()
        except Exception as error:
            raise PipelineError(f"Spark does not start: {_reason(said) or sentence(error)}") from error
    if options["spark.log.level"] == "OFF":
        # it would print a traceback when Java ends
        setattr(spark.sparkContext._accumulatorServer, "handle_error", lambda request, address: None)  # noqa: B010
    return spark


def stop(spark: SparkSession) -> None:
    """End the session. A Connect server goes on; a Java that has ended is not called."""
    if not _java_has_ended(spark):
        spark.stop()


def is_connected(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect, which has no context and no Java objects."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _without_log(spark: SparkSession, error: Exception) -> PipelineError:
    """An error in one sentence. If Java has ended, that is the cause, and the job's own error does not count."""
    return PipelineError(JAVA_ENDED if _java_has_ended(spark, ENDING_S) else sentence(error))


def _java_has_ended(spark: SparkSession, within_s: float = 0.0) -> bool:
    """Whether the session's Java has ended, or will within a moment: its connections end first."""
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if process is None or is_connected(spark):
        return False
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def _standard_error(file: IO[bytes] | None) -> Iterator[None]:
    """Redirect the standard error of processes that are started meanwhile."""
    if file is None:
        yield
        return
    sys.stderr.flush()
    own = os.dup(STANDARD_ERROR)
    os.dup2(file.fileno(), STANDARD_ERROR)
    try:
        yield
    finally:
        os.dup2(own, STANDARD_ERROR)
        os.close(own)


def _reason(said: IO[bytes]) -> str:
    """Why a Java has ended; empty if it runs, or gave no reason."""
    said.seek(0)
    lines = [line.strip() for line in said.read().decode(errors="replace").splitlines()]
    return next((found[1] for line in lines if (found := ENDED.match(line))), "")


def _connected(name: str, master: str, options: Mapping[str, str]) -> SparkSession:
    missing = [package for package in CONNECT_NEEDS if not _is_there(package)]
    if missing:
        raise PipelineError(f"Spark Connect needs more packages here: pip install 'pyspark[connect]' ({missing[0]})")
    address = master.removeprefix("sc://").split("/")[0]
    _reach(master, [_address(address if ":" in address else f"{address}:{CONNECT_PORT}")])
    try:
        builder = SparkSession.Builder().appName(name).remote(master)
        spark = builder.getOrCreate()
        for key, value in options.items():
            if key.startswith("spark.sql."):
                spark.conf.set(key, value)
    except Exception as error:
        raise PipelineError(f"{master} does not take the session: {sentence(error)}") from error
    return spark


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _reach(master: str, addresses: list[tuple[str, int]]) -> None:
    """Check that the master is reachable: Spark would try for a minute, and report it in a hundred lines."""
    reason = ""
    for address in addresses:
        try:
            socket.create_connection(address, REACH_S).close()
            return
        except OSError as error:
            reason = error.strerror or str(error)
    raise PipelineError(f"no Spark answers at {master}: {reason}")
