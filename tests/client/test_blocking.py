"""The same client without an event loop."""

import inspect
import threading

import pytest

from warren.client import (
    Channel,
    ChannelClosed,
    ConnectionClosed,
    LoginRefused,
    Message,
    Properties,
    PublishFailed,
    blocking,
)
from warren.client.blocking import connect
from warren.wire.frames import content_frames
from warren.wire.methods import BasicPublish, encode_method
from warren.wire.properties import encode_header_payload


def test_messages_go_out_and_come_in(url: str, queue: str) -> None:
    with connect(url, name="blocking") as connection:
        channel = connection.channel(confirms=True, window=100)
        assert channel.declare_queue(queue).messages == 0
        channel.publish(Message(b"one", Properties(message_id="m")), routing_key=queue)
        assert channel.send(b"two", routing_key=queue) == 2
        assert channel.send_many([b"%d" % number for number in range(1000)], routing_key=queue) == range(3, 1003)
        channel.wait_for_confirms()
        assert channel.unconfirmed == 0
        consumer_channel = connection.channel()
        consumer_channel.prefetch(50)
        consumer = consumer_channel.consume(queue)
        got = []
        for delivery in consumer:
            got.append(delivery.body)
            consumer_channel.ack(delivery)
            if len(got) == 1002:
                break
        assert got == [b"one", b"two", *(b"%d" % number for number in range(1000))]
        assert consumer.batch(timeout_s=0.05) == []
        consumer.cancel()
        assert list(consumer) == []
        assert channel.declare_queue(queue, passive=True).messages == 0
    assert not connection.is_open


def test_frames_that_a_program_has_made_are_numbered_and_confirmed_as_others_are(url: str, queue: str) -> None:
    with connect(url) as connection:
        channel = connection.channel(confirms=True)
        channel.declare_queue(queue)
        publish = encode_method(channel.number, BasicPublish("", queue))
        frames = publish + content_frames(
            encode_header_payload(Properties(), 4), b"made", channel.number, connection.frame_max
        )
        assert channel.send(b"first", routing_key=queue) == 1
        assert channel.send_encoded(frames * 3, 3, timeout_s=10.0) == 4
        channel.wait_for_confirms(10.0, up_to=1)
        channel.wait_for_confirms(10.0)
        assert channel.unconfirmed == 0
        consumer = channel.consume(queue)
        got: list[bytes] = []
        while len(got) < 4:
            deliveries = consumer.batch(10.0)
            got += [delivery.body for delivery in deliveries]
            channel.ack(int(deliveries[-1].delivery_tag), multiple=True)
        assert got == [b"first", b"made", b"made", b"made"]
        consumer.cancel()
        channel.recover()
        assert channel.declare_queue(queue, passive=True).messages == 0


def test_errors_are_those_of_the_client(url: str, queue: str) -> None:
    with pytest.raises(LoginRefused):
        connect(url.replace(":guest@", ":wrong@"))
    with connect(url) as connection:
        with connection.channel(confirms=True) as channel, pytest.raises(PublishFailed):
            channel.publish(b"x", routing_key=queue, mandatory=True)
        with connection.channel() as channel, pytest.raises(ChannelClosed, match="404"):
            channel.declare_queue(queue, passive=True)
        channel = connection.channel()
    with pytest.raises(ConnectionClosed):
        channel.declare_queue(queue)
    with pytest.raises(ConnectionClosed):
        connection.channel()
    connection.close()


def test_a_mistake_in_an_ack_is_raised_by_the_next_call(url: str, queue: str) -> None:
    with connect(url) as connection:
        channel = connection.channel(confirms=True)
        channel.declare_queue(queue)
        channel.publish(b"x", routing_key=queue)
        delivery = channel.get(queue)
        assert delivery is not None
        channel.ack(delivery)
        channel.ack(delivery)
        with pytest.raises(ValueError, match="settled before"):
            channel.declare_queue(queue)
        assert channel.declare_queue(queue).messages == 0


def test_threads_share_a_connection(url: str, queue: str) -> None:
    with connect(url) as connection:
        channel = connection.channel(confirms=True)
        channel.declare_queue(queue)

        def publish() -> None:
            for _ in range(50):
                channel.publish(b"x", routing_key=queue)

        threads = [threading.Thread(target=publish) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert channel.declare_queue(queue).messages == 200


def test_no_thread_is_left_behind(url: str) -> None:
    before = threading.active_count()
    with connect(url):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_every_call_of_a_channel_is_there_with_its_arguments() -> None:
    missing = {"cancel", "happened", "ended"}
    for name, method in inspect.getmembers(Channel, inspect.isfunction):
        if not name.startswith("_") and name not in missing:
            there = getattr(blocking.Channel, name)
            assert list(inspect.signature(there).parameters) == list(inspect.signature(method).parameters), name
