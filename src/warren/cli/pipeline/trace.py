"""`warren pipeline trace`: import trace files or the Firehose into a lake.

Not here: the job (`pipeline.trace.job`).
"""

import signal
import threading
from typing import Annotated

import typer

from warren.cli.pipeline.options import LOCAL, MEMORY, Conf, Master, Memory, needed_packages, spark_session
from warren.errors import ConfigError

Lake = Annotated[str, typer.Option(metavar="DIR", help="The lake; created if missing.")]
Files = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]DIR",
        help="A folder of trace files in JSON; may be repeated for other nodes, each with a name.",
    ),
]
Traces = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Only this trace of the folders; may be repeated.")
]
Stream = Annotated[str, typer.Option(metavar="NAME", help="A stream that is bound to amq.rabbitmq.trace.")]
Url = Annotated[str, typer.Option(metavar="URL", help="Where the stream is: amqp://USER:PASSWORD@HOST:PORT/VHOST.")]
Declare = Annotated[bool, typer.Option("--declare", help="Declare and bind the stream if needed.")]
Continuous = Annotated[
    bool, typer.Option("--continuous/--once", help="Run until interrupted; or read what exists, and end.")
]
Every = Annotated[int, typer.Option(metavar="SECONDS", min=1, help="Polling interval of --continuous.")]
Payloads = Annotated[bool, typer.Option("--payloads", help="Also keep payloads, not only their size and digest.")]
AllowLoss = Annotated[
    bool,
    typer.Option(
        "--allow-loss", help="Continue after data that was deleted before it was read; otherwise that is an error."
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example: warren pipeline trace --lake lake --files var/traces\n\n"
        "Example: warren pipeline trace --lake lake --stream trace --declare --url amqp://guest:guest@localhost:5672/%2F\n\n"
        "Run again, it goes on where it was. Lines that cannot be understood are kept, in quarantine, and told, "
        "with exit code 1."
    )(trace)


def trace(
    lake: Lake,
    files: Files = None,
    trace: Traces = None,
    stream: Stream = "",
    url: Url = "",
    declare: Declare = False,
    continuous: Continuous = False,
    every: Every = 30,
    payloads: Payloads = False,
    allow_loss: AllowLoss = False,
    master: Master = LOCAL,
    memory: Memory = MEMORY,
    conf: Conf = None,
) -> int:
    """Import trace files or the Firehose into a lake: a row for each event, and one for each message."""
    if bool(stream) != bool(url):
        raise ConfigError("--stream NAME and --url URL go together")
    if declare and not stream:
        raise ConfigError("--declare goes with --stream NAME")
    with needed_packages():
        from warren.pipeline.errors import PipelineError
        from warren.pipeline.folder import Folder
        from warren.pipeline.trace import job
        from warren.pipeline.trace import lake as lakes
        from warren.pipeline.trace.sources import FileSource, StreamSource

    sources = tuple(FileSource(directory, name, tuple(trace or ())) for name, directory in map(_named, files or []))
    wanted = StreamSource(url, stream, declare) if stream else None
    settings = job.Settings(lake, sources, wanted, payloads, continuous, every, allow_loss)
    settings.check()
    enough = threading.Event()
    with spark_session("trace", master, memory, conf) as spark:
        if continuous:
            # an exception during a call to Spark would look like a failure of Spark
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: enough.set())
        done = job.run(spark, settings, enough)
    print(f"events:      {done.events} ({done.added_events} of them added)")
    print(f"quarantined: {done.quarantined} ({done.added_quarantined} of them added)")
    print(f"messages:    {done.messages}")
    folder = Folder(lake)
    unreported = lakes.unreported(folder, done.quarantined)
    if unreported:
        lakes.mark_reported(folder, done.quarantined)
        raise PipelineError(
            f"lines that cannot be parsed: {unreported}; they are in the quarantine of {lake}, with the reasons"
        )
    return 0


def _named(text: str) -> tuple[str, str]:
    """Name and folder."""
    name, separator, directory = text.partition("=")
    return (name, directory) if separator and "/" not in name else ("", text)
