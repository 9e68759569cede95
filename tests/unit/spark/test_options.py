"""Options of users: accepted values, and the one-sentence error for others."""

import pytest

from warren.spark.options import OptionError, QueueOptions, StreamOptions, read_options, write_options

URL = "amqp://me:secret@one,two:5673/shop"


def test_names_do_not_depend_on_case() -> None:
    options = read_options({"URL": URL, "Stream": "orders", "STARTINGOFFSETS": "earliest", "minpartitions": "4"})
    assert isinstance(options, StreamOptions)
    assert (options.stream, options.starting_offsets, options.min_partitions) == ("orders", "earliest", 4)
    assert write_options({"url": URL, "ROUTINGKEY": "orders"}).routing_key == "orders"


def test_a_queue_has_options_of_its_own() -> None:
    options = read_options({"url": URL, "queue": "q", "mode": "Browse", "maxRecordsPerTrigger": "10", "timeout": "1.5"})
    assert isinstance(options, QueueOptions)
    assert (options.queue, options.mode, options.max_records_per_trigger) == ("q", "browse", 10)
    assert options.broker.timeout_s == 1.5


def test_columns_come_in_the_order_they_are_wanted() -> None:
    options = read_options({"url": URL, "queue": "q", "columns": "body, Offset"})
    assert options.columns == ("body", "offset")


def test_headers_are_a_column_on_request() -> None:
    assert "headers" in read_options({"url": URL, "queue": "q", "includeHeaders": "true"}).columns
    assert "headers" not in read_options({"url": URL, "queue": "q", "includeHeaders": "false"}).columns


def test_options_that_spark_adds_are_passed_over() -> None:
    assert write_options({"url": URL, "checkpointLocation": "/x", "queryName": "n"}).publisher is None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"url": URL}, 'reading needs option("stream", NAME) or option("queue", NAME)'),
        ({"queue": "q"}, 'option("url", "amqp://user:password@host:port/vhost") says where the broker is'),
        ({"url": URL, "queue": "q", "stream": "s"}, "options stream and queue exclude each other"),
        ({"url": URL, "qeue": "q"}, "there is no option 'qeue' for reading; did you mean queue?"),
        ({"url": URL, "routingKey": "k"}, "there is no option 'routingkey' for reading"),
        ({"url": URL, "queue": "q", "minPartitions": "2"}, "option minPartitions makes no sense for a queue"),
        ({"url": URL, "stream": "s", "mode": "browse"}, "option mode makes no sense for a stream"),
        ({"url": URL, "queue": ""}, "option queue is a name, and is empty"),
        ({"url": URL, "queue": "q" * 256}, "option queue has more than 255 bytes"),
        ({"url": URL, "queue": "q", "mode": "peek"}, "option mode is browse or consume, not 'peek'"),
        (
            {"url": URL, "stream": "s", "minPartitions": "0"},
            "option minPartitions is a whole number from 1 on, not '0'",
        ),
        ({"url": URL, "stream": "s", "minPartitions": "many"}, "option minPartitions is a whole number from 1 on"),
        ({"url": URL, "stream": "s", "failOnDataLoss": "no"}, "option failOnDataLoss is true or false, not 'no'"),
        ({"url": URL, "stream": "s", "timeout": "soon"}, "option timeout is a number of seconds up to 86400"),
        (
            {"url": URL, "stream": "s", "columns": "key"},
            "option columns: there is no column 'key'; did you mean routing",
        ),
        ({"url": URL, "stream": "s", "columns": "body,body"}, "option columns names a column twice"),
        ({"url": "http://x", "stream": "s"}, "option url: an AMQP URL begins with amqp:// or amqps://"),
        ({"url": f"{URL}?heartbeet=1", "stream": "s"}, "option url: unknown option 'heartbeet' in the URL"),
    ],
)
def test_a_mistake_in_reading_is_named(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_options(given)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"url": URL, "routing_key": "k"}, "there is no option 'routing_key' for writing; did you mean routingKey?"),
        ({"url": URL, "publisher": ""}, "option publisher is a name of 1 to 200 bytes"),
        ({"url": URL, "exchange": "e" * 256}, "option exchange has more than 255 bytes"),
        ({"url": URL, "mandatory": "1"}, "option mandatory is true or false, not '1'"),
    ],
)
def test_a_mistake_in_writing_is_named(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError) as caught:
        write_options(given)
    assert str(caught.value).startswith(sentence)


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(read_options({"url": URL, "queue": "q"}))
    with pytest.raises(OptionError) as caught:
        read_options({"url": URL + "?heartbeat=x", "queue": "q"})
    assert "secret" not in str(caught.value)
