"""`warren pipeline compensate`: messages that correct the findings of a reconciliation.

Not here: the job (`pipeline.compensate.job`).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from warren.cli.pipeline.options import LOCAL, MEMORY, Conf, Master, Memory, needed_packages, spark_session
from warren.cli.terminal import say

if TYPE_CHECKING:
    from warren.pipeline.compensate.job import Compensated


BODY_CHARACTERS = 200
STEPS = {
    "resent": "rows of the outbox, sent again",
    "reversed": "rows of the outbox, taken back",
    "added": "messages more in the outbox",
    "on_its_way": "to be sent anyway",
    "outdated": "the outbox says otherwise by now: reconcile again",
    "too_old": "a side may have forgotten it: look at it yourself",
    "left": "not in the outbox, and no exchange or routing key was given",
}
"""What happens to messages that go through an outbox."""


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example: warren pipeline compensate found --state compensation --url amqp://localhost "
        "--routing-key corrections --dry-run"
    )(compensate)


def compensate(
    result: Annotated[str, typer.Argument(metavar="DIR", help="The result of reconcile, its --out.")],
    state: Annotated[str, typer.Option(metavar="DIR", help="Where attempts are stored.")],
    url: Annotated[str, typer.Option(metavar="URL", help="The broker; several hosts are separated by commas.")] = "",
    outbox: Annotated[
        str,
        typer.Option(
            envvar="WARREN_PIPELINE_OUTBOX",
            metavar="URL",
            help="Instead of a broker: the database with the outbox to use.",
        ),
    ] = "",
    exchange: Annotated[str, typer.Option(metavar="NAME", help="Where to publish; the default exchange.")] = "",
    routing_key: Annotated[
        str, typer.Option(metavar="KEY", help="The routing key; may contain {ledger} and {action}.")
    ] = "",
    action: Annotated[
        list[str] | None, typer.Option(metavar="STATUS=ACTION", help="The action for keys of a status.")
    ] = None,
    max_attempts: Annotated[int, typer.Option(metavar="N", help="Maximum number of attempts for a key.")] = 3,
    day: Annotated[
        str | None, typer.Option(metavar="DAY", help="The day to compensate; the result's by default.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent, and send nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Send without a preceding dry run.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Another attempt for this result.")] = False,
    abandon: Annotated[
        bool,
        typer.Option("--abandon", help="Abandon a run that cannot finish; what it may have sent counts as an attempt."),
    ] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long to try to reach the broker.")] = 60.0,
    keep_days: Annotated[
        float, typer.Option(metavar="DAYS", help="With --outbox: how long outbox and inbox keep rows.")
    ] = 7.0,
    master: Master = LOCAL,
    memory: Memory = MEMORY,
    conf: Conf = None,
) -> int:
    """Publish messages that resend, reverse or correct; each key has a limited number of attempts."""
    with needed_packages():
        from warren.pipeline.compensate.job import run
        from warren.pipeline.compensate.settings import CompensateSettings
        from warren.pipeline.folder import Folder
    settings = CompensateSettings(
        Folder(result),
        Folder(state),
        url,
        exchange,
        routing_key,
        tuple(action or ()),
        max_attempts,
        day,
        dry_run,
        yes,
        again,
        timeout,
        abandon,
        outbox,
        keep_days,
    )
    with spark_session("compensate", master, memory, conf) as spark:
        _show(run(spark, settings), dry_run)
    return 0


def _show(outcome: "Compensated", dry_run: bool) -> None:
    if outcome.already:
        print("this result is compensated already: nothing is sent; --again is one more attempt")
        return
    for (status, action), count in outcome.counts.items():
        print(f"{status:<14} {action:<8} {count:>10}")
    for row in outcome.sample:
        body = row["body"] if len(row["body"]) <= BODY_CHARACTERS else row["body"][:BODY_CHARACTERS] + "…"
        say(f"{row['key']} {row['ledger']} attempt {row['attempt']} to {row['routing_key']}: {body}")
    for step, count in sorted(outcome.steps.items()):
        print(f"{step:<23} {count:>10}  {STEPS[step]}")
    if outcome.exhausted:
        print(f"{outcome.exhausted} keys have used all their attempts and need manual handling")
    print(f"{outcome.messages} messages {'would be sent' if dry_run else 'are sent'}")
