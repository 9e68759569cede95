"""How many messages wait in each queue, by what the trace has seen of them.

A message enters a queue whenever it is published or dead-lettered into it, and leaves when it is first delivered or
dead-lettered from there after that. What expires, is dropped or purged without becoming a dead letter leaves no trace
and counts as waiting; what was in the queue before the trace began does not count.

Not here: how many passed through (`flows`).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql


def changes(tallies: DataFrame) -> DataFrame:
    """`vhost`, `name`, `moment`, `change`: by how many more wait after that step than before it."""
    entered, left = sql.col("kind") == "entered", sql.col("kind") == "left"
    change = sql.sum(sql.when(entered, sql.col("messages")).otherwise(-sql.col("messages")))
    return tallies.where(entered | left).groupBy("vhost", "name", "moment").agg(change.alias("change"))


def waiting(change: DataFrame) -> DataFrame:
    """`vhost`, `name`, `waiting`: how many wait at the end, of queues in which any do."""
    left = change.groupBy("vhost", "name").agg(sql.sum("change").alias("waiting"))
    return left.where(sql.col("waiting") > 0)
