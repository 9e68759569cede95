"""The command line of `warren migrate`.

Standard output has the plan and the results. Standard error has the progress and reasons for refusals.

Exit codes: 0 done, and every count matches; 1 refused, failed, interrupted, or a count does not match; 2 wrong usage; 3
done, but other consumers at RabbitMQ may have received what did not arrive.

Not here: the move (`cli.migrate.move`).
"""

import sys
from functools import partial
from typing import Annotated, Any

import typer

from warren.cli.terminal import say
from warren.errors import ConfigError


def _option(metavar: str, sentence: str, **given: Any) -> Any:
    return typer.Option(metavar=metavar, help=sentence, **given)


def migrate(
    source: Annotated[
        str,
        typer.Option("--from", metavar="URL", envvar="WARREN_MIGRATE_FROM", help="RabbitMQ's HTTP API, with login."),
    ],
    destination: Annotated[
        str, typer.Option("--to", metavar="URL", envvar="WARREN_MIGRATE_TO", help="Warren's HTTP API, with login.")
    ] = "http://guest:guest@localhost:15672",
    amqp: Annotated[
        str,
        _option("URI", "RabbitMQ's AMQP as Warren reaches it; found out by default.", envvar="WARREN_MIGRATE_AMQP"),
    ] = "",
    vhost: Annotated[
        list[str] | None, _option("VHOST", "Move this virtual host; may be repeated. All by default.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and change nothing.")] = False,
    definitions_only: Annotated[bool, typer.Option("--definitions-only", help="Do not move contents.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep Warren's definitions where they differ.")] = False,
    bridges: Annotated[
        bool, typer.Option("--bridges", help="Also import RabbitMQ's shovels and upstreams: they start at once.")
    ] = False,
    first: Annotated[str, _option("WHO", "Guide through a switch-over: consumers first, or publishers first.")] = "",
    follow: Annotated[bool, typer.Option("--follow", help="Keep moving new messages until Enter is pressed.")] = False,
    at_once: Annotated[int, typer.Option(min=1, metavar="N", help="How many queues to move at the same time.")] = 32,
    ca_file: Annotated[str, _option("FILE", "Certificates to trust, for https:// addresses.")] = "",
) -> int:
    """Move from a live RabbitMQ 3: definitions, then the contents of queues, with counts."""
    from warren.cli.migrate.brokers import RabbitMQ, WarrenDestination
    from warren.cli.migrate.move import ORDERS, Move, MoveOptions
    from warren.cli.migrate.plan import PlanOptions

    if first and first not in ORDERS:
        raise ConfigError(f"--first takes {' or '.join(ORDERS)}, not {first}")
    there = WarrenDestination(destination, ca_file)
    here = RabbitMQ(source, amqp, ca_file)
    plan_options = PlanOptions(tuple(vhost or ()), keep, bridges, there.http.user, here.carrier)
    move_options = MoveOptions(plan_options, dry_run, definitions_only, follow, first, at_once)
    try:
        return Move(here, there, move_options, partial(say, flush=True)).run().value
    except KeyboardInterrupt:
        print(
            "warren: interrupted; shovels that were started continue. The same command continues from here, "
            "and without --first and --follow it moves the rest",
            file=sys.stderr,
        )
        return 1
    finally:
        here.close()
        there.close()
