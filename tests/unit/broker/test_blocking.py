"""A node short of memory: publishers are blocked, other clients are served."""

import pytest

from tests.support.core_driver import CAPABLE, Client, Core, content, published, spoken, without_notes
from warren.broker.model.effects import PauseReading, ResumeReading, SendBytes
from warren.broker.model.events import MemoryMeasured
from warren.wire.methods import (
    BasicPublish,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueueDeclare,
    QueuePurge,
    encode_method,
)

LIMIT = 10_000_000
REASON = "low on memory"


@pytest.fixture
def filler(core: Core) -> Client:
    """The client that filled the queue `q` and the memory."""
    filler = core.client()
    filler.declare("q")
    core.turn(MemoryMeasured(1_000_000, LIMIT))
    return filler


def fill(filler: Client) -> None:
    for _ in range(10):
        filler.publish("q", *[bytes(100_000)] * 10)


def empty(core: Core) -> None:
    core.client().say(QueuePurge(queue="q"))


def test_the_alarm_rises_between_two_measurements(core: Core, filler: Client) -> None:
    for _ in range(8):
        filler.publish("q", *[bytes(100_000)] * 10)
    assert core.broker.alarm == ""
    fill(filler)
    assert core.broker.alarm == REASON
    assert [note.name for note in core.notes if note.level == "warning"] == ["alarm.raised"]


def test_the_next_publish_blocks_its_publisher(core: Core, filler: Client) -> None:
    fill(filler)
    publisher = core.client()
    blocked = encode_method(0, ConnectionBlocked(REASON))
    assert publisher.publish("q", b"let in") == [
        PauseReading(publisher.number),
        SendBytes(publisher.number, blocked),
    ]
    assert publisher.publish("q", b"was on its way") == []


def test_a_publisher_is_released_when_the_alarm_is_over(core: Core, filler: Client) -> None:
    fill(filler)
    publisher = core.client()
    publisher.publish("q", b"let in")
    publisher.heard()
    empty(core)
    core.settle()
    assert core.broker.alarm == ""
    assert core.unread == set()
    assert publisher.methods() == [ConnectionUnblocked()]
    assert without_notes(publisher.publish("q", b"free")) == []
    assert "alarm.cleared" in core.note_names()


def test_a_client_that_does_not_know_of_blocking_is_held_without_a_word(core: Core, filler: Client) -> None:
    fill(filler)
    publisher = core.client(capabilities={**CAPABLE, "connection.blocked": False})
    assert publisher.publish("q", b"x") == [PauseReading(publisher.number)]
    empty(core)
    core.settle()
    assert publisher.heard() == []
    assert core.unread == set()


def test_consumers_and_askers_are_not_blocked(core: Core, filler: Client) -> None:
    fill(filler)
    reader = core.client()
    reader.say(QueueDeclare(queue="other"))
    reader.consume("q", no_ack=True)
    core.settle()
    assert reader.number not in core.unread
    names = reader.names()
    assert names[:2] == ["queue.declare-ok", "basic.consume-ok"]
    assert set(names[2:]) == {"basic.deliver"}
    assert len(names[2:]) >= 90
    assert core.broker.alarm == ""


def test_a_publisher_gets_connection_blocked_once(core: Core, filler: Client) -> None:
    fill(filler)
    publisher = core.client()
    publisher.publish("q", *[b"x"] * 100)
    publisher.publish("q", *[b"x"] * 100)
    assert publisher.methods() == [ConnectionBlocked(REASON)]


def test_content_that_comes_in_pieces_blocks_its_publisher_too(core: Core, filler: Client) -> None:
    publisher = core.client()
    publisher.say(BasicPublish("", "q"))
    frames = content(bytes(300_000))
    publisher.read(frames[:100_000])
    fill(filler)
    assert publisher.heard() == []
    publisher.read(frames[100_000:200_000])
    assert publisher.methods() == [ConnectionBlocked(REASON)]


def test_a_blocked_publisher_that_leaves_is_forgotten(core: Core, filler: Client) -> None:
    fill(filler)
    publisher = core.client()
    publisher.publish("q", b"x")
    publisher.lose()
    effects = core.client().say(QueuePurge(queue="q"))
    assert ResumeReading(publisher.number) not in effects


def test_a_publisher_waiting_both_for_memory_and_to_be_read_is_resumed_once(core: Core, filler: Client) -> None:
    fill(filler)
    publisher = core.client()
    returned = published("nowhere", bytes(100_000), mandatory=True)
    publisher.read(returned * 30)
    core.settle()
    assert publisher.number in core.unread
    empty(core)
    core.settle()
    assert core.unread == set()
    assert publisher.names().count("basic.return") == 30


def test_a_measurement_ends_the_alarm_as_well(core: Core, filler: Client) -> None:
    fill(filler)
    publisher = core.client()
    publisher.read(spoken(BasicPublish("", "q")) + content())
    core.turn(MemoryMeasured(9_000_000, 10 * LIMIT))
    assert ResumeReading(publisher.number) in core.settle()
    assert core.broker.alarm == ""


def test_publishes_that_were_read_before_the_alarm_wait_until_it_is_over(core: Core, filler: Client) -> None:
    fill(filler)
    publisher = core.client()
    publisher.declare("other")
    publisher.heard()
    publisher.read(published("other", b"x") * 50)
    core.settle()
    assert core.broker.vhosts["/"].topology.queues["other"].ready_count() == 1
    empty(core)
    core.settle()
    assert core.broker.vhosts["/"].topology.queues["other"].ready_count() == 50
    assert core.unread == set()


def test_bodies_of_http_requests_count_like_messages(core: Core) -> None:
    core.turn(MemoryMeasured(2 * LIMIT, LIMIT))
    assert core.broker.alarm == ""
    core.turn(MemoryMeasured(2 * LIMIT, LIMIT, LIMIT // 4))
    assert core.broker.alarm == REASON
    core.turn(MemoryMeasured(2 * LIMIT, LIMIT))
    assert core.broker.alarm == ""
