"""What is on its way between an outbox and those who receive from it, while both are read.

    a moment ──▶ all ledgers but outboxes are read ──▶ outboxes are read ──▶ keys on their way are left out of all

A message is written to the outbox before anybody has it. So if the outbox is read last, whatever the others have is in
it; and what is in it alone may be on its way if it is fresh: if it was written, or sent, within the outbox's time for
that, counted back from before the others were read.

Not here: how rows are read (`reconcile.kit`), what is said of keys that are left (`reconcile.comparing`).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from warren.client.errors import ClientError
from warren.pipeline.errors import PipelineError
from warren.pipeline.reconcile import kit, ledgers
from warren.pipeline.reconcile.ledgers import Opened
from warren.pipeline.reconcile.settings import Settings


def moments(settings: Settings) -> dict[str, datetime]:
    """What time it is for each table of the kit; a `PipelineError` if the day that is compared is not over there."""
    found = {}
    for ledger in settings.ledgers:
        if ledger.source.kind not in kit.TIMES:
            continue
        try:
            found[ledger.name] = kit.moment(ledger.source)
        except ClientError as error:
            raise PipelineError(f"ledger {ledger.name}: {error}") from None
        day = settings.business_day
        if day is not None and day.closes > found[ledger.name]:
            raise PipelineError(
                f"{settings.day} is not over, with its grace, before {day.closes:%Y-%m-%d %H:%M:%S} UTC, and what is "
                f"on its way to or from ledger {ledger.name} until then would be a difference"
            )
    return found


def is_read_last(ledger: Opened) -> bool:
    return ledger.ledger.source.kind == kit.OUTBOX


def landed(
    settings: Settings, opened: list[Opened], at: Mapping[str, datetime], stored: Callable[[DataFrame], DataFrame]
) -> tuple[list[Opened], int]:
    """The ledgers without what is on its way, and how many keys that are; these are `stored` once."""
    flying = [_flying(settings, opened, each, at) for each in opened if is_read_last(each) and each.ledger.in_flight]
    if not flying:
        return opened, 0
    keys = stored(reduce(DataFrame.union, flying).distinct())
    count = keys.count()
    if not count:
        return opened, 0
    without = [
        replace(each, frame=each.frame.join(keys, ledgers.key_of(settings, each) == sql.col(FLYING), "left_anti"))
        for each in opened
    ]
    return without, count


FLYING = "key in flight"


def _flying(settings: Settings, opened: list[Opened], outbox: Opened, at: Mapping[str, datetime]) -> DataFrame:
    """Keys of fresh rows that one of the other ledgers lacks."""
    since = at[outbox.ledger.name] - outbox.ledger.in_flight
    fresh = outbox.frame.filter(kit.is_fresh(since)).select(ledgers.key_of(settings, outbox).alias(FLYING))
    lacking = [
        fresh.join(
            each.frame.select(ledgers.key_of(settings, each).alias("key")),
            sql.col(FLYING) == sql.col("key"),
            "left_anti",
        )
        for each in opened
        if each is not outbox
    ]
    return reduce(DataFrame.union, lacking)
