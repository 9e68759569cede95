"""Many dead letters at once: they keep their order, and do not delay other work."""

import pytest

from tests.support.core_driver import Client, Core, published, spoken
from warren.broker.dead_letters import KEPT_BYTES_MAX, DeadLetterQueue
from warren.broker.model.effects import SetTimer
from warren.broker.model.message import Entry, Envelope, Message
from warren.broker.model.ports import DeadLetter
from warren.wire.methods import BasicGet, QueueDeclare, QueueDelete

TO_GRAVE = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}


@pytest.fixture
def client(core: Core) -> Client:
    client = core.client()
    client.declare("grave")
    client.declare("short", {"x-max-length": 0, **TO_GRAVE})
    return client


def numbered(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def dead_lettered(core: Core, client: Client) -> list[bytes]:
    """All dead letters, in order."""
    core.settle()
    client.consume("grave", no_ack=True)
    core.settle()
    return [heard.body for heard in client.heard() if heard.header]


@pytest.mark.lengthy
def test_letters_keep_their_order_over_slices_and_turns(core: Core, client: Client) -> None:
    client.publish("short", *numbered(0, 5000))
    client.publish("short", *numbered(5000, 10_000))
    client.publish("short", *numbered(10_000, 10_010))
    assert dead_lettered(core, client) == numbered(0, 10_010)


def test_letters_of_letters_keep_their_order(core: Core, client: Client) -> None:
    chained = {"x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "short"}
    client.declare("first", {**chained})
    client.publish("first", *numbered(0, 1000))
    assert dead_lettered(core, client) == numbered(0, 1000)


def test_others_are_served_while_letters_wait(core: Core, client: Client) -> None:
    other = core.client()
    other.declare("mine")
    assert SetTimer(core.now_ms) in client.publish("short", *numbered(0, 12_000))
    other.publish("mine", b"prompt")
    other.say(BasicGet(queue="mine", no_ack=True))
    assert other.bodies() == [b"prompt"]
    grave = core.broker.vhosts["/"].topology.queues["grave"]
    assert grave.ready_count() < 12_000
    core.settle()
    assert grave.ready_count() == 12_000


@pytest.mark.lengthy
def test_letters_that_multiply_in_circles_take_many_turns_and_little_room(core: Core, client: Client) -> None:
    for number in range(8):
        client.declare(f"ring{number}", {"x-max-length": 0, "x-dead-letter-exchange": "amq.fanout"})
        client.bind(f"ring{number}", "amq.fanout")
    # this would make more than a hundred thousand letters in one turn
    assert SetTimer(core.now_ms) in client.publish("", b"x", exchange="amq.fanout")
    assert 0 < sum(len(batch) for batch in core.broker._dead_letters._batches) < 5000


def test_a_circle_is_noted_once_for_a_queue(core: Core, client: Client) -> None:
    round_about = {"x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "round"}
    client.declare("round", {**round_about})
    client.publish("round", *numbered(0, 10))
    assert core.note_names().count("dead_letter.cycle_dropped") == 1
    (note,) = [note for note in core.notes if note.name == "dead_letter.cycle_dropped"]
    assert note.fields == {"vhost": "/", "from": "round", "to": "round"}
    assert core.held_bytes() == 0


def test_letters_whose_queue_was_deleted_meanwhile_still_arrive(core: Core, client: Client) -> None:
    client.publish("short", *numbered(0, 5000))
    client.say(QueueDelete(queue="short"))
    core.settle()
    assert core.broker.vhosts["/"].topology.queues["grave"].ready_count() == 5000


def test_letters_of_a_durable_queue_that_is_deleted_keep_their_order(core: Core, client: Client) -> None:
    """Some wait from an earlier turn, others died in this one."""
    client.say(QueueDeclare(queue="solid", durable=True, arguments={"x-max-length": 0, **TO_GRAVE}))
    client.publish("solid", *numbered(0, 5000))
    later = b"".join(published("solid", body) for body in numbered(5000, 5010))
    client.read(later + spoken(QueueDelete(queue="solid")))
    assert dead_lettered(core, client) == numbered(0, 5010)


def test_letters_whose_exchange_is_missing_are_let_go(core: Core, client: Client) -> None:
    client.declare("lost", {"x-max-length": 0, "x-dead-letter-exchange": "missing"})
    client.publish("lost", *numbered(0, 5000))
    core.settle()
    assert core.held_bytes() == 0


def test_a_stale_node_holds_a_bounded_number_of_dead_letters_until_it_is_current() -> None:
    core = Core()
    client = core.client()
    client.declare("short", {"x-max-length": 0, "x-dead-letter-exchange": "unknown"})
    turn, vhosts = core.broker.turn, core.broker.vhosts
    queue = vhosts["/"].topology.queues["short"]
    content = bytes(1024 * 1024)
    message = Message(Envelope("", "short"), content, 1, len(content), 4096)
    letters = DeadLetterQueue(turn, core.broker.settings.node_name)
    held_bytes = turn.held_bytes
    turn.may_be_behind = True
    turn.dead_letters = [
        DeadLetter(queue, Entry(message, number, 0), "maxlen", "unknown", None) for number in range(80)
    ]
    letters.publish_slice(vhosts, 10**9)
    assert not letters.waiting()
    kept_bytes = turn.held_bytes - held_bytes
    assert KEPT_BYTES_MAX < kept_bytes < KEPT_BYTES_MAX + 2 * len(content)
    turn.may_be_behind = False
    assert letters.waiting()
    letters.publish_slice(vhosts, 10**9)
    assert (letters.waiting(), turn.held_bytes) == (False, held_bytes)
