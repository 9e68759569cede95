"""The same client without an event loop."""

import asyncio
import gc
import inspect
import os
import signal
import sys
import threading
import time
from types import FrameType

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
from warren.client.loop_thread import LoopFuture, LoopThread
from warren.wire.frames import content_frames
from warren.wire.methods import BasicPublish, encode_method
from warren.wire.properties import encode_header_payload

ON_EITHER_BROKER = True


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


def test_calls_posted_after_a_failing_ack_are_run(url: str, queue: str) -> None:
    with connect(url) as connection:
        channel = connection.channel(confirms=True)
        channel.declare_queue(queue)
        channel.publish(b"x", routing_key=queue)
        delivery = channel.get(queue)
        assert delivery is not None
        for mistake in (None, "7"):
            channel.ack(mistake)  # type: ignore[arg-type]
        channel.ack(delivery)
        with pytest.raises((AttributeError, TypeError)):
            channel.declare_queue(queue)
        channel.recover()
        assert channel.declare_queue(queue).messages == 0


def test_a_call_in_the_thread_of_its_own_connection_is_refused(url: str) -> None:
    thread = LoopThread()
    raised: list[type[BaseException]] = []

    async def nothing() -> None:
        raise AssertionError("this must not run")

    def calls_itself() -> None:
        for call in (lambda: thread.run(nothing()), lambda: thread.stop(nothing())):
            try:
                call()
            except Exception as error:
                raised.append(type(error))

    async def later() -> None:
        calls_itself()

    thread.run(later())
    thread.stop()
    assert raised == [ValueError, ValueError]


def test_a_caller_that_waits_for_an_endless_coroutine_is_answered_when_the_thread_ends() -> None:
    thread = LoopThread()
    began = threading.Event()
    never = threading.Event()
    answers: list[type[BaseException]] = []

    async def stays() -> None:
        while not never.is_set():
            began.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue

    def wait() -> None:
        try:
            thread.run(stays())
        except ConnectionClosed as closed:
            answers.append(type(closed))

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    assert began.wait(20.0)
    stoppers = [threading.Thread(target=thread.stop, daemon=True) for _ in range(2)]
    for each in stoppers:
        each.start()
    for each in (*stoppers, waiting):
        each.join(20.0)
        assert not each.is_alive()
    assert answers == [ConnectionClosed]
    never.set()
    # a pending coroutine warns when it is collected: collect it here, not in a later test
    gc.collect()


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
    before = set(threading.enumerate())
    with connect(url):
        # threads of earlier tests may end meanwhile
        assert len(set(threading.enumerate()) - before) == 1
    assert set(threading.enumerate()) <= before


def test_every_call_of_a_channel_is_there_with_its_arguments() -> None:
    # consumers cancel themselves, events belong to the protocol, and opening one here is never cancelled
    missing = {"cancel", "happened", "ended", "leave"}
    for name, method in inspect.getmembers(Channel, inspect.isfunction):
        if not name.startswith("_") and name not in missing:
            there = getattr(blocking.Channel, name)
            assert list(inspect.signature(there).parameters) == list(inspect.signature(method).parameters), name


class Interrupted(Exception):
    """The exception of a signal handler."""


def test_a_call_that_a_signal_interrupts_is_cancelled(url: str, queue: str) -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with connect(url) as connection:
            channel = connection.channel(confirms=True)
            channel.declare_queue(queue)
            consumer = channel.consume(queue)
            caller = threading.get_ident()

            def interrupt_the_call() -> None:
                """Interrupt the call as soon as it waits, not before."""
                while consumer._inner._waiter is None or not is_waiting(caller):
                    time.sleep(0.005)
                signal.pthread_kill(caller, signal.SIGUSR1)

            interrupting = threading.Thread(target=interrupt_the_call, daemon=True)
            interrupting.start()
            with pytest.raises(Interrupted):
                consumer.batch()
            interrupting.join()
            # its reader is gone: a consumer that still had one would refuse a second
            channel.publish(b"x", routing_key=queue)
            [delivery] = consumer.batch(10.0)
            channel.ack(delivery)
    finally:
        signal.signal(signal.SIGUSR1, before)


def is_waiting(thread: int) -> bool:
    return sys._current_frames()[thread].f_code is LoopFuture.wait.__code__


def test_a_publish_that_cannot_go_at_once_goes_when_there_is_room(url: str, queue: str) -> None:
    with connect(url) as connection:
        channel = connection.channel(confirms=True, window=1)
        channel.declare_queue(queue)
        sender = threading.Thread(target=lambda: channel.send_many([b"x"] * 200, routing_key=queue))
        sender.start()
        for _ in range(20):
            channel.publish(b"y", routing_key=queue)
        sender.join()
        channel.wait_for_confirms()
        assert channel.declare_queue(queue).messages == 220


def test_a_publish_is_confirmed_behind_untaken_deliveries(
    url: str, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.client.protocol.UNREAD_BYTES_MAX", 200_000)
    with connect(url) as connection, connect(url) as other:
        publisher = other.channel(confirms=True)
        publisher.declare_queue(queue)
        publisher.send_many([b"x" * 10_000] * 3000, routing_key=queue)
        publisher.wait_for_confirms()
        channel = connection.channel(confirms=True)
        consumer = channel.consume(queue, no_ack=True)
        protocol = channel._inner._protocol

        async def until_full() -> None:
            while protocol._reads:
                await protocol.changed()

        connection._thread.run(until_full())
        channel.publish(b"y", routing_key=queue)
        assert protocol.read_demand.count == 0
        count = 0
        while count < 3001:
            count += len(consumer.batch(10.0))


def test_publishes_that_wait_when_the_connection_is_lost_fail(url: str, queue: str) -> None:
    with connect(url) as connection:
        channel = connection.channel(confirms=True)
        with pytest.raises(ChannelClosed, match="404"):
            channel.publish(b"x", exchange="not there", routing_key=queue)
        with pytest.raises(ChannelClosed, match="404"):
            channel.publish(b"x", routing_key=queue)
        with pytest.raises(ChannelClosed, match="404"):
            channel.publish(b"x", routing_key=queue, timeout_s=1.0)


def test_a_mistake_in_a_publish_is_raised_and_nothing_is_sent(url: str, queue: str) -> None:
    with connect(url) as connection:
        channel = connection.channel(confirms=True)
        channel.declare_queue(queue)
        with pytest.raises(ValueError, match="255"):
            channel.publish(b"x", routing_key="k" * 256)
        channel.publish(b"y", routing_key=queue)
        assert channel.declare_queue(queue).messages == 1


def test_a_forked_process_may_not_use_the_connection(url: str, queue: str) -> None:
    with connect(url) as connection:
        channel = connection.channel()
        channel.declare_queue(queue)
        child = os.fork()
        if child == 0:
            told = 0
            for call in (lambda: channel.declare_queue(queue), lambda: channel.ack(1)):
                try:
                    call()
                except ConnectionClosed as closed:
                    told += "forked" in str(closed)
            connection.close()
            os._exit(told)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 2
        assert channel.declare_queue(queue).messages == 0


def test_a_call_during_the_close_of_a_connection_is_answered(url: str) -> None:
    for _ in range(20):
        connection = connect(url)
        outcomes: list[BaseException | None] = []

        def ask(connection: blocking.Connection = connection, outcomes: list[BaseException | None] = outcomes) -> None:
            try:
                while True:
                    connection.channel().close()
            except ConnectionClosed as closed:
                outcomes.append(closed)

        threads = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        connection.close()
        for thread in threads:
            thread.join(30.0)
            assert not thread.is_alive()
        assert len(outcomes) == 3
