"""Messages whose ids, keys and headers are no UTF-8, read and written by Spark on a real node."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from tests.spark.streams import declare
from tests.support.queue_contents import taken
from warren.client import Delivery, Message, Properties, blocking

ONE, OTHER = "\udcff1", "\udcfe1"
"""They differ in bytes alone that are no UTF-8."""


def publish(channel: blocking.Channel, exchange: str) -> None:
    for name in (ONE, OTHER):
        headers = {name: name, "x-death": [{"routing-keys": [name]}]}
        properties = Properties(message_id=name, correlation_id=name, headers=headers, delivery_mode=2)
        channel.publish(Message(name.encode("utf-8", "surrogateescape"), properties), exchange, name)


def names_of(found: Delivery) -> set[str | None]:
    """All places of a message that have its name."""
    [header] = [value for name, value in found.headers.items() if name == found.routing_key]
    body = found.body.decode("utf-8", "surrogateescape")
    return {found.routing_key, found.properties.message_id, found.properties.correlation_id, str(header), body}


@pytest.mark.parametrize("kind", ["stream", "queue"])
def test_messages_copied_by_spark_are_all_there_with_their_bytes(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, kind: str
) -> None:
    broker.declare_exchange("names", "fanout")
    broker.declare_exchange("copies", "fanout")
    broker.bind_queue(queue, "copies")
    source = declare(broker) if kind == "stream" else broker.declare_queue("", exclusive=False).name
    broker.bind_queue(source, "names")
    publish(broker, "names")
    broker.unbind_queue(source, "names")
    frame = spark.read.format("warren").option("url", url).option(kind, source).option("includeHeaders", True).load()
    copies = frame.withColumn("exchange", sql.lit("copies"))
    copies.coalesce(1).write.format("warren").mode("append").option("url", url).save()
    found = taken(broker, queue, 2)
    assert [names_of(each) for each in sorted(found, key=lambda each: each.routing_key)] == [{OTHER}, {ONE}]


def test_bytes_that_are_cast_to_text_are_a_key(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str
) -> None:
    broker.bind_queue(queue, "amq.topic", "#")
    key = sql.unhex(sql.lit("FF31")).cast("string")
    frame = spark.range(1).select(sql.lit("amq.topic").alias("exchange"), key.alias("routing_key"), key.alias("body"))
    frame.write.format("warren").mode("append").option("url", url).save()
    [found] = taken(broker, queue, 1)
    assert (found.routing_key, found.body) == (ONE, b"\xff1")
