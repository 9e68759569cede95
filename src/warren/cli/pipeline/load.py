"""`warren pipeline load`: publish files as messages.

Not here: the job (`pipeline.load.job`).
"""

import sys
from typing import Annotated

import typer

from warren.cli.pipeline.options import LOCAL, MEMORY, Conf, Master, Memory, needed_packages, spark_session

MESSAGE_BYTES = 4_000_000


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example: warren pipeline load orders.csv --state loads/orders --url amqp://localhost "
        "--routing-key orders --schema 'id bigint, amount decimal(12, 2)'"
    )(load)


def load(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE…", help="CSV, Parquet, spreadsheets, JSON lines, or folders of them.")
    ],
    state: Annotated[str, typer.Option(metavar="DIR", help="Where the load stores its progress and stages messages.")],
    url: Annotated[str, typer.Option(metavar="URL", help="The broker; several hosts are separated by commas.")],
    exchange: Annotated[str, typer.Option(metavar="NAME", help="Where to publish; the default exchange.")] = "",
    routing_key: Annotated[str | None, typer.Option(metavar="KEY", help="The routing key of all messages.")] = None,
    key_column: Annotated[str | None, typer.Option(metavar="NAME", help="The column with the routing key.")] = None,
    max_bytes: Annotated[
        int, typer.Option(metavar="N", help="Maximum size of a message in bytes, up to 4000000.")
    ] = MESSAGE_BYTES,
    schema: Annotated[
        str, typer.Option(metavar="DDL", help="The types of columns of a CSV or a spreadsheet; others are text.")
    ] = "",
    delimiter: Annotated[str, typer.Option(metavar="C", help="The delimiter of a CSV.")] = ",",
    sheet: Annotated[str, typer.Option(metavar="NAME", help="The sheet of a spreadsheet; the first by default.")] = "",
    quarantine: Annotated[
        bool, typer.Option("--quarantine", help="Put records that cannot be loaded into quarantine.")
    ] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long to try to reach the broker.")] = 60.0,
    master: Master = LOCAL,
    memory: Memory = MEMORY,
    conf: Conf = None,
) -> int:
    """Publish the records of files, merged into messages. A run that was killed can be continued."""
    with needed_packages():
        from warren.pipeline.folder import Folder
        from warren.pipeline.load.job import run
        from warren.pipeline.load.settings import LoadSettings, Shape
    shape = Shape(exchange, routing_key, key_column, max_bytes, schema, delimiter, sheet)
    settings = LoadSettings(tuple(files), Folder(state), url, shape, quarantine, timeout)
    with spark_session("load", master, memory, conf) as spark:
        loaded = run(spark, settings)
    print(
        f"loaded {loaded.records} records in {loaded.messages} messages of {loaded.bytes} bytes in all; "
        f"{loaded.published_now} messages by this run"
    )
    if loaded.quarantined:
        print(f"{loaded.quarantined} records cannot be loaded: they are in {state}/quarantine", file=sys.stderr)
    return 0
