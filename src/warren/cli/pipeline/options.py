"""Options of all jobs: the Spark master, memory, configuration.

    def trace(lake: …, master: Master = LOCAL, memory: Memory = MEMORY, conf: Conf = None) -> int:
        with spark_session("trace", master, memory, conf) as spark: …

Not here: starting Spark (`pipeline.session`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from warren.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LOCAL = "local[*]"
MEMORY = "2g"
Master = Annotated[
    str,
    typer.Option(metavar="URL", help="Where Spark runs: local[*], spark://HOST:PORT, yarn, k8s://…, sc://HOST:PORT."),
]
Memory = Annotated[str, typer.Option(metavar="SIZE", help="Heap size of the local Java process.")]
Conf = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")]


@contextmanager
def spark_session(job: str, master: str, memory: str, conf: list[str] | None) -> "Iterator[SparkSession]":
    """A session for one job; Spark's errors become one sentence."""
    settings = _settings(conf or [])
    with needed_packages():
        from warren.pipeline import session
    with session.running(f"warren {job}", master, memory, settings) as spark:
        yield spark


@contextmanager
def needed_packages() -> Iterator[None]:
    """Wraps imports of a job's packages, which are optional."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"the pipeline needs more packages: pip install 'warren[pipeline]' ({error.name})") from None


def _settings(given: list[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for each in given:
        key, separator, value = each.partition("=")
        if not separator or not key.startswith("spark."):
            raise ConfigError(f"--conf is spark.KEY=VALUE, not {each!r}")
        settings[key] = value
    return settings
