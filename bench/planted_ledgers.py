"""Writes the two ledgers that `bench/reconcile` compares, and says which faults are in them.

    python planted_ledgers.py FOLDER ROWS

Orders are numbered; which fault an order has depends on its number alone. The second ledger has its rows in another
order: its nth row is order n times a prime, modulo the count.

Not here: comparing them.
"""

import sys

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from warren.pipeline import session

FAULTS = (
    "missing",
    "unexpected",
    "differs",  # in its amount
    "differs",  # in its currency
    "duplicated",  # in the second ledger
    "duplicated",  # in the first
    "contradicting",
    "late",
    "unreadable",
)
EVERY = 1_000
PRIME = 999_999_937
DAY = "2026-11-15"
FILES = 16


def fault_of(number: int) -> str:
    place = number % EVERY
    return FAULTS[place] if place < len(FAULTS) else "balanced"


def main(folder: str, count: int) -> None:
    with session.running("planted ledgers") as spark:
        first = spark.range(0, count, 1, FILES).withColumn("fault", _place())
        second = spark.range(0, count, 1, FILES).select((sql.col("id") * PRIME % count).alias("id"))
        _first(first).write.parquet(f"{folder}/orders")
        _second(second.withColumn("fault", _place())).write.parquet(f"{folder}/payments")


def _place() -> Column:
    return (sql.col("id") % EVERY).cast("int")


def _first(orders: DataFrame) -> DataFrame:
    twice = sql.when(sql.col("fault") == 5, 2).otherwise(1)
    return _repeated(orders.filter("fault <> 1"), twice).select(*_columns())


def _second(orders: DataFrame) -> DataFrame:
    fault = sql.col("fault")
    twice = sql.when(fault.isin(4, 6), 2).otherwise(1)
    order_id, at, amount, currency, note = _columns()
    wrong = (fault == 2) | ((fault == 6) & (sql.col("copy") == 2))
    next_day = sql.lit(f"{DAY} 00:30:00").cast("timestamp") + sql.expr("interval 1 day")
    return _repeated(orders.filter("fault <> 0"), twice).select(
        order_id,
        sql.when(fault == 7, next_day).when(fault != 8, at).alias("at"),
        sql.when(wrong, amount + sql.lit("0.01").cast("decimal(12,2)"))
        .otherwise(amount)
        .cast("decimal(12,2)")
        .alias("amount"),
        sql.when(fault == 3, sql.lit("USD")).otherwise(currency).alias("currency"),
        note,
    )


def _repeated(orders: DataFrame, times: Column) -> DataFrame:
    return orders.withColumn("copy", sql.explode(sql.sequence(sql.lit(1), times)))


def _columns() -> tuple[Column, ...]:
    number = sql.col("id")
    midnight = sql.unix_timestamp(sql.lit(f"{DAY} 00:00:00").cast("timestamp"))
    return (
        sql.concat(sql.lit("order-"), sql.lpad(number.cast("string"), 10, "0")).alias("order_id"),
        sql.timestamp_seconds(midnight + number % 86_400).alias("at"),
        (number * 7919 % 10_000_000 * sql.lit("0.01").cast("decimal(3,2)")).cast("decimal(12,2)").alias("amount"),
        sql.element_at(sql.array(*map(sql.lit, ("EUR", "CHF", "SEK"))), (number % 3 + 1).cast("int")).alias("currency"),
        sql.substring(sql.md5(number.cast("string")), 1, 16).alias("note"),
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
