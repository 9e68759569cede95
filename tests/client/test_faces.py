"""The blocking classes over a transport: the same calls, for programs without an event loop."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine

from tests.client.awaited_rows import be_late, send
from tests.client.relayed_rows import AT_ONCE, add, change, statuses
from tests.client.seam import Brokers, to, with_queue
from tests.support.deadlines import eventually
from tests.support.ports import free_port
from warren.client import CannotConnect, CannotConvert, ConnectionClosed, Message, PublishFailed
from warren.client.errors import CallTimeout
from warren.client.listening import Arrival, Listener, Program
from warren.client.listening.blocking import Puller, Requester
from warren.client.outbox import Relay as LoopRelay
from warren.client.outbox.blocking import Relay
from warren.client.receipts import Alert, Chased
from warren.client.receipts.blocking import Chaser as BlockingChaser
from warren.client.recovering import blocking
from warren.client.recovering.blocking import Transport
from warren.client.testing import FaultProxy

ON_EITHER_BROKER = True

DEADLINE_S = 30.0


@pytest.fixture
def transport(broker: Brokers) -> Iterator[Transport]:
    with Transport(broker.connect()) as opened:
        yield opened


@pytest.fixture
def queue(broker: Brokers, transport: Transport) -> str:
    name = broker.name("queue")
    transport.declare(with_queue(name))
    return name


def fetched(transport: Transport, queue: str) -> list[bytes]:
    found: list[bytes] = []
    while (message := transport.get(queue, no_ack=True)) is not None:
        found.append(message.body)
    return found


# the transport


def test_messages_go_and_come(transport: Transport, queue: str) -> None:
    failed = transport.publish([*to(queue, b"1"), *to("nowhere-at-all", b"2")])
    assert (failed[0], type(failed[1])) == (None, PublishFailed)
    transport.publish_together(to(queue, b"3", b"4"))
    with pytest.raises(CannotConvert):
        transport.publish_together(to(queue, b"5", headers={"x": object()}))
    transport.send(to(queue, b"6"))
    transport.publish(to(queue, b"7", message_id="m7"))
    first = transport.get(queue)
    assert first is not None
    first.ack()
    message = transport.get(queue)
    assert message is not None
    assert (message.body, message.is_ours, message.redelivered, message.exchange) == (b"3", True, False, "")
    message.nack()
    again = transport.get(queue)
    assert again is not None
    assert (again.body, again.redelivered) == (b"3", True)
    again.ack()
    assert (first.body, fetched(transport, queue)) == (b"1", [b"4", b"6", b"7"])


def test_a_transport_that_is_closed_says_so(broker: Brokers) -> None:
    opened = Transport(broker.connect())
    opened.close()
    with pytest.raises(ConnectionClosed):
        opened.publish(to("q", b"1"))
    opened.close()


def test_a_failed_connection_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with pytest.raises(CannotConnect):
        blocking.open(f"amqp://127.0.0.1:{free_port()}")
    # threads of earlier tests may have ended
    assert set(threading.enumerate()) <= before


def test_a_blocking_transport_reconnects_by_itself(proxy: FaultProxy, unique: Callable[[str], str]) -> None:
    queue = unique("queue")
    with blocking.open(proxy.url, name="shop") as transport:
        transport.declare(with_queue(queue))
        proxy.cut()
        assert transport.publish(to(queue, b"1"), DEADLINE_S) == [None]
        # it may have been sent twice
        assert set(fetched(transport, queue)) == {b"1"}


# pulling and asking


def test_groups_are_settled_as_one(transport: Transport, queue: str) -> None:
    transport.publish(to(queue, *(b"%d" % number for number in range(25))))
    with Puller(transport, queue, group_size=10) as puller:
        first, second, third = (puller.take(0.5 if wait else DEADLINE_S) for wait in (False, False, True))
        # with two unacked groups there is no third
        assert ([len(first), len(second), len(third)], first[0].body) == ([10, 10, 0], b"0")
        first.ack()
        second.nack()
        group = puller.take(DEADLINE_S)
        assert len(group) == 10
        group[0].ack()
        group.ack()
        dealt_with = {message.body for message in (*first, *group)}
    everything = {b"%d" % number for number in range(25)}
    assert left_in(transport, queue, 5) == everything - dealt_with


def left_in(transport: Transport, queue: str, count: int) -> set[bytes]:
    """Wait until a queue has so many messages, and return them; requeued messages may come late."""
    left: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(left) < count:
        assert time.monotonic() < deadline, left
        left += fetched(transport, queue)
    return set(left)


def test_messages_not_handed_out_go_back(transport: Transport, queue: str) -> None:
    transport.publish(to(queue, *(b"%d" % number for number in range(15))))
    with Puller(transport, queue, group_size=10) as puller:
        puller.take(DEADLINE_S).ack()
    assert left_in(transport, queue, 5) == {b"10", b"11", b"12", b"13", b"14"}


def test_questions_of_several_threads_have_their_own_answers(transport: Transport, queue: str, broker: Brokers) -> None:
    def double(question: Arrival[bytes]) -> bytes:
        return b"%d" % (2 * int(question.body))

    program = Program(broker.connect, lambda opened: Listener(opened, queue, double))
    answering = threading.Thread(target=program.run)
    answering.start()
    try:
        with Requester(transport, "", queue) as requester, ThreadPoolExecutor(4) as threads:
            asked = list(threads.map(lambda number: requester.request(b"%d" % number, DEADLINE_S), range(20)))
            assert [int(answer.body) for answer in asked] == [2 * number for number in range(20)]
            broker.named.append(requester._inner._replies)
    finally:
        program.stop()
        answering.join(DEADLINE_S)
    assert not answering.is_alive()


def test_a_request_without_a_reply_times_out(transport: Transport, queue: str, broker: Brokers) -> None:
    with Requester(transport, "", queue) as requester:
        broker.named.append(requester._inner._replies)
        with pytest.raises(CallTimeout):
            requester.request(Message(b"1"), 0.05)


# relaying


def test_a_relay_drains_and_runs_until_it_is_stopped(database: Engine, transport: Transport, queue: str) -> None:
    add(database, "one", "two", routing_key=queue)
    assert Relay(database, transport).drain() == 2
    relay = Relay(database, transport, AT_ONCE)
    running = threading.Thread(target=relay.run)
    running.start()
    add(database, "three", routing_key=queue)
    eventually(lambda: statuses(database)["three"] == "sent")
    relay.stop()
    running.join(DEADLINE_S)
    assert not running.is_alive()
    assert Relay(database, transport).drain() == 0
    assert fetched(transport, queue) == [b"one", b"two", b"three"]


@pytest.mark.parametrize("end", ["stop", "SIGTERM"])
def test_a_program_relays_beside_its_listeners(
    database: Engine, transport: Transport, queue: str, broker: Brokers, end: str
) -> None:
    seen: list[bytes] = []

    def handle(message: Arrival[bytes]) -> None:
        seen.append(message.body)
        if message.body == b"one":
            add(database, "two", routing_key=queue)
        else:
            program.stop() if end == "stop" else os.kill(os.getpid(), signal.SIGTERM)

    add(database, "one", routing_key=queue)
    program = Program(
        broker.connect,
        lambda opened: Listener(opened, queue, handle),
        lambda opened: LoopRelay(database, opened, AT_ONCE),
    )
    program.run()
    assert seen == [b"one", b"two"]
    # it has released the lease
    assert Relay(database, transport).drain() == 0
    add(database, "three", routing_key=queue)
    assert Relay(database, transport).drain() == 1


def test_a_chaser_looks_once(database: Engine) -> None:
    send(database, "again", "gone")
    change(database, "gone", resends=9)
    be_late(database)
    alerts: list[Alert] = []
    assert BlockingChaser(database, on_alert=alerts.append).once() == Chased(resent=1, compensated=0, failed=1)
    assert [alert.business_id for alert in alerts] == ["gone"]
    assert BlockingChaser(database).once() == Chased(0, 0, 0)


def test_a_job_that_cannot_go_on_ends_its_program(broker: Brokers, transport: Transport, queue: str) -> None:
    class Job:
        def __init__(self, error: Exception) -> None:
            self._error = error

        async def run(self) -> None:
            raise self._error

        def stop(self) -> None:
            return

    def handle(message: Arrival[bytes]) -> None:
        return

    program = Program(
        broker.connect,
        lambda opened: Listener(opened, queue, handle),
        lambda opened: Job(ZeroDivisionError()),
    )
    with pytest.raises(ZeroDivisionError):
        program.run()
