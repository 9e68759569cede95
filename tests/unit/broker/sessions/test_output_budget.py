"""The output budget of a connection in one turn.

Invariants: deliveries and replies are sent in slices of about a mebibyte, with a turn for other connections in between;
a client that does not read costs a bounded amount of memory, and loses nothing.
"""

import pytest

from tests.support.core_driver import Client, Core, published, sent_to, spoken
from warren.broker.model.effects import Effect, PauseReading, ResumeReading, SendBytes, SetTimer
from warren.broker.model.events import WritesPaused, WritesResumed
from warren.broker.sessions.connection import OUTPUT_BUDGET_BYTES, REPLY_BACKLOG_BYTES
from warren.wire.methods import (
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicNack,
    QueueDeclare,
    QueueDeclareOk,
)

MESSAGE_BYTES = 100_000
BACKLOG = 500
SLICE_BYTES_MAX = int(OUTPUT_BUDGET_BYTES) + MESSAGE_BYTES + 1000


@pytest.fixture
def client(core: Core) -> Client:
    client = core.client()
    client.declare("q")
    return client


def pile_up(client: Client, count: int = BACKLOG) -> None:
    frames = published("q", bytes(MESSAGE_BYTES))
    for _ in range(count // 10):
        client.read(frames * 10)


def slices(client: Client, effects: list[Effect]) -> list[int]:
    return [len(data) for data in sent_to(client, effects)]


def test_a_backlog_leaves_in_slices_with_a_turn_between_them(core: Core, client: Client) -> None:
    pile_up(client)
    effects = client.consume("q")
    sizes = slices(client, effects)
    while 0 < core.timer_at_ms <= core.now_ms:
        effects = core.turn()
        assert len(sent_to(client, effects)) <= 1
        sizes += slices(client, effects)
    assert client.octets_received > BACKLOG * MESSAGE_BYTES
    assert max(sizes) < SLICE_BYTES_MAX
    assert min(sizes[:-1]) >= OUTPUT_BUDGET_BYTES
    assert client.names() == ["basic.consume-ok"] + ["basic.deliver"] * BACKLOG


def test_each_slice_but_the_last_asks_for_a_turn_at_once(core: Core, client: Client) -> None:
    pile_up(client, 30)
    effects = [client.consume("q"), core.turn(), core.turn()]
    assert [SetTimer(core.now_ms) in turn for turn in effects] == [True, True, False]


def test_others_are_served_between_two_slices(core: Core, client: Client) -> None:
    pile_up(client, 50)
    other = core.client()
    other.declare("small")
    client.consume("q")
    other.publish("small", b"1")
    other.consume("small")
    assert other.names() == ["basic.consume-ok", "basic.deliver"]
    assert client.octets_received < 50 * MESSAGE_BYTES


@pytest.mark.parametrize("channels", [(1, 1), (1, 2)], ids=["one channel", "two channels"])
def test_two_backlogs_to_one_client_share_its_slices(core: Core, channels: tuple[int, int]) -> None:
    client = core.client(channels=2)
    for queue in ("left", "right"):
        client.declare(queue)
        for _ in range(10):
            client.read(published(queue, bytes(MESSAGE_BYTES)) * 10)
    for queue, channel in zip(("left", "right"), channels, strict=True):
        client.say(BasicConsume(queue=queue, consumer_tag=queue), channel=channel)
    for _ in range(6):
        core.turn()
    delivered = [one.method.routing_key for one in client.heard() if isinstance(one.method, BasicDeliver)]
    assert len(delivered) < 200
    assert min(delivered.count("left"), delivered.count("right")) >= len(delivered) // 4


def test_a_client_that_does_not_read_is_sent_no_more_deliveries(core: Core, client: Client) -> None:
    pile_up(client)
    client.consume("q")
    core.turn(WritesPaused(client.number))
    before = client.octets_received
    assert core.settle() == []
    core.pass_ms(60_000)
    assert client.octets_received == before < 3 * SLICE_BYTES_MAX
    core.turn(WritesResumed(client.number))
    core.settle()
    assert client.names().count("basic.deliver") == BACKLOG


def test_another_consumer_is_served_while_one_does_not_read(core: Core, client: Client) -> None:
    stuck, lively = core.client(), core.client()
    stuck.consume("q", "stuck")
    lively.consume("q", "lively")
    core.turn(WritesPaused(stuck.number))
    stuck.heard()
    lively.heard()
    client.publish("q", *[b"x"] * 10)
    assert (len(stuck.heard()), len(lively.heard())) == (0, 10)
    core.turn(WritesResumed(stuck.number))
    client.publish("q", *[b"x"] * 10)
    assert len(stuck.heard()) == 5


def test_a_client_that_does_not_read_keeps_its_output_and_can_disconnect(core: Core, client: Client) -> None:
    pile_up(client, 50)
    reader = core.client()
    reader.consume("q")
    core.turn(WritesPaused(reader.number))
    reader.lose()
    client.say(QueueDeclare(queue="q", passive=True))
    assert client.methods() == [QueueDeclareOk("q", 50, 0)]


def test_replies_beyond_the_budget_hold_the_requests_that_follow(core: Core, client: Client) -> None:
    pile_up(client, 50)
    gets = spoken(*[BasicGet(queue="q", no_ack=True)] * 50)
    effects = client.read(gets)
    assert PauseReading(client.number) in effects
    assert SetTimer(core.now_ms) in effects
    assert len(client.heard()) == 11
    effects = core.settle()
    assert max(slices(client, effects)) < SLICE_BYTES_MAX
    assert len(client.heard()) == 39
    assert core.unread == set()


def test_input_read_while_requests_wait_is_handled_after_them(core: Core, client: Client) -> None:
    pile_up(client, 20)
    client.read(spoken(*[BasicGet(queue="q", no_ack=True)] * 20))
    client.read(spoken(BasicGet(queue="q")) + spoken(QueueDeclare(queue="last"))[:5])
    client.read(spoken(QueueDeclare(queue="last"))[5:])
    core.settle()
    assert client.names() == ["basic.get-ok"] * 20 + ["basic.get-empty", "queue.declare-ok"]


def test_pauses_and_resumes_of_reading_alternate(core: Core, client: Client) -> None:
    pile_up(client, 50)
    effects = client.read(spoken(*[BasicGet(queue="q", no_ack=True)] * 50)) + core.settle()
    kinds = [type(effect) for effect in effects if isinstance(effect, PauseReading | ResumeReading)]
    assert kinds == [PauseReading, ResumeReading] * (len(kinds) // 2)
    assert len(kinds) >= 8


def test_others_are_served_while_one_clients_requests_wait(core: Core, client: Client) -> None:
    pile_up(client, 50)
    other = core.client()
    client.read(spoken(*[BasicGet(queue="q", no_ack=True)] * 50))
    other.declare("prompt")
    other.say(BasicGet(queue="prompt"))
    assert other.names() == ["basic.get-empty"]
    assert core.unread == {client.number}


def test_a_message_asked_for_again_and_again_cannot_fill_the_memory(core: Core, client: Client) -> None:
    pile_up(client, 10)
    again = spoken(BasicGet(queue="q"), BasicNack(delivery_tag=0, multiple=True, requeue=True))
    effects = client.read(again * 2000)
    assert max(slices(client, effects)) < SLICE_BYTES_MAX


def test_requests_of_a_client_that_does_not_read_wait_until_it_does(core: Core, client: Client) -> None:
    pile_up(client, 50)
    core.turn(WritesPaused(client.number))
    before = client.octets_received
    client.read(spoken(*[BasicGet(queue="q", no_ack=True)] * 50))
    core.settle()
    assert client.octets_received - before < SLICE_BYTES_MAX
    assert core.unread == {client.number}
    # input that was read already is not answered either
    assert client.say(BasicGet(queue="q", no_ack=True)) == []
    core.turn(WritesResumed(client.number))
    core.settle()
    assert client.names() == ["basic.get-ok"] * 50 + ["basic.get-empty"]
    assert core.unread == set()


def test_small_replies_to_a_client_that_does_not_read_add_up(core: Core, client: Client) -> None:
    pile_up(client, 10)
    again = spoken(BasicGet(queue="q"), BasicNack(delivery_tag=0, multiple=True, requeue=True))
    core.turn(WritesPaused(client.number))
    before = client.octets_received
    turns = 0
    while client.number not in core.unread:
        client.read(again * 5)
        turns += 1
        assert client.octets_received - before <= REPLY_BACKLOG_BYTES + SLICE_BYTES_MAX
    assert turns > 20
    core.turn(WritesResumed(client.number))
    core.settle()
    effects = client.read(again * 5)
    assert [type(effect) for effect in effects] == [SendBytes]


def test_a_client_lost_while_its_requests_wait_leaves_nothing_to_do(core: Core, client: Client) -> None:
    pile_up(client, 50)
    other = core.client()
    other.read(spoken(*[BasicGet(queue="q")] * 50))
    other.lose()
    core.settle()
    client.say(QueueDeclare(queue="q", passive=True))
    assert client.methods() == [QueueDeclareOk("q", 50, 0)]
    assert core.broker.turn.inputs == []


def test_the_time_its_input_was_held_is_not_a_clients_silence(core: Core) -> None:
    client = core.client(heartbeat_s=10)
    client.declare("q")
    pile_up(client, 20)
    core.turn(WritesPaused(client.number))
    client.read(spoken(*[BasicGet(queue="q", no_ack=True)] * 20))
    core.pass_ms(34_000)
    core.turn(WritesResumed(client.number))
    core.now_ms += 1_000
    core.settle()
    assert "connection.silent" not in core.note_names()
    core.pass_ms(25_001)
    assert core.note_names()[-1] == "connection.silent"


def test_a_consumer_cancelled_between_slices_gets_nothing_more(core: Core, client: Client) -> None:
    pile_up(client, 50)
    client.consume("q", no_ack=True)
    assert 0 < client.names().count("basic.deliver") < 50
    client.say(BasicCancel(consumer_tag="c"))
    core.settle()
    names = client.names()
    assert names[-1] == "basic.cancel-ok"
    assert len(names) < 25
