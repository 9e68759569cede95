"""Routes that cost much: they continue in later turns, in order, and the input behind them waits."""

import random
import time

import pytest

from tests.support.core_driver import Core, published
from tests.unit.broker.journal.journal_world import drain
from warren.broker.model.turn import ROUTING_STEPS_A_TURN
from warren.broker.sessions.publishes import COPY_KEYS_MAX
from warren.wire.field_tables import Table
from warren.wire.properties import Properties

DRAW = random.Random(19)


def hostile_pattern() -> str:
    """127 words, of which nearly all match at nearly every place of a hostile key."""
    return "#." + ".".join(DRAW.choice(["a", "*", "#"]) for _ in range(125)) + ".z"


def hostile_key(number: int) -> str:
    return ".".join(["a"] * 120) + f".{number}"


PATTERNS = [hostile_pattern() for _ in range(200)]


@pytest.fixture
def core() -> Core:
    core = Core()
    client = core.client()
    client.declare("hostile")
    client.declare("q")
    client.bind("q", "amq.topic", "last")
    for pattern in PATTERNS:
        client.bind("hostile", "amq.topic", pattern)
    return core


def with_copies(count: int) -> Properties:
    return Properties(headers={"CC": [hostile_key(number) for number in range(count - 1)], "BCC": ["last"]})


def test_a_hostile_key_costs_a_fraction_of_a_turn(core: Core) -> None:
    topology = core.broker.vhosts["/"].topology
    began, steps = time.process_time(), topology.steps
    for number in range(10):
        topology.route(topology.exchanges["amq.topic"], hostile_key(number), None)
    assert (topology.steps - steps) / 10 < ROUTING_STEPS_A_TURN
    assert time.process_time() - began < 1.0


def test_a_message_with_many_hostile_keys_arrives_once_after_several_turns_and_before_the_next_one(core: Core) -> None:
    client = core.client()
    client.confirm()
    held_bytes = core.broker.turn.held_bytes
    first = published("last", b"first", "amq.topic", with_copies(COPY_KEYS_MAX))
    client.read(first + published("last", b"second", "amq.topic"))
    assert client.names() == []
    assert core.broker.turn.held_bytes > held_bytes
    turns = 0
    while core.broker.turn.inputs:
        assert core.broker.turn.routing_steps < 2 * ROUTING_STEPS_A_TURN
        core.turn()
        turns += 1
    assert turns > 2
    assert client.names() == ["basic.ack", "basic.ack"]
    assert drain(core.client(), "q") == [b"first", b"second"]
    assert core.broker.turn.held_bytes == held_bytes


def test_another_client_is_served_in_every_turn_meanwhile(core: Core) -> None:
    attacker, other = core.client(), core.client()
    attacker.read(published("last", b"first", "amq.topic", with_copies(COPY_KEYS_MAX)))
    other.publish("q", b"other")
    assert core.broker.turn.inputs
    assert drain(other, "q")[0] == b"other"


def test_a_message_whose_client_is_lost_meanwhile_is_dropped(core: Core) -> None:
    held_bytes = core.broker.turn.held_bytes
    client = core.client()
    client.read(published("last", b"first", "amq.topic", with_copies(COPY_KEYS_MAX)))
    client.lose()
    while core.broker.turn.inputs:
        core.turn()
    assert drain(core.client(), "q") == []
    assert core.broker.turn.held_bytes == held_bytes


def test_a_client_that_publishes_with_ever_new_hostile_keys_is_read_slowly(core: Core) -> None:
    client = core.client()
    client.confirm()
    keys = [hostile_key(number) for number in range(100)] + ["last"]
    client.read(b"".join([published(key, b"m", "amq.topic") for key in keys]))
    turns = 1
    while core.broker.turn.inputs:
        assert core.broker.turn.routing_steps < 2 * ROUTING_STEPS_A_TURN
        core.turn()
        turns += 1
    assert turns > 2
    assert drain(core.client(), "q") == [b"m"]


def turns_for(core: Core, messages: list[bytes]) -> int:
    """How many turns these messages take, none of which routes much more than its share."""
    core.client().read(b"".join(messages))
    turns = 1
    while core.broker.turn.inputs:
        assert core.broker.turn.routing_steps < 2 * ROUTING_STEPS_A_TURN
        core.turn()
        turns += 1
    return turns


def test_a_client_whose_messages_have_many_headers_to_compare_is_read_slowly() -> None:
    core = Core()
    client = core.client()
    client.declare("q")
    topology = core.broker.vhosts["/"].topology
    headers: Table = {f"k{number}": 1 for number in range(1000)}
    for number in range(50):
        topology.bind(topology.exchanges["amq.headers"], topology.queues["q"], "", {**headers, f"z{number}": 1})
    message = published("k", b"m", "amq.headers", Properties(headers=headers))
    assert turns_for(core, [message] * 20) >= 10


def test_a_client_whose_messages_go_through_many_bindings_of_exchanges_is_read_slowly() -> None:
    core = Core()
    topology = core.broker.vhosts["/"].topology
    client = core.client()
    for number in range(100):
        client.declare_exchange(f"x{number}", "fanout")
    exchanges = [topology.exchanges[f"x{number}"] for number in range(100)]
    for one in exchanges:
        for other in exchanges:
            topology.bind(one, other, "", {})
    assert turns_for(core, [published(f"k{number}", b"m", "x0") for number in range(100)]) >= 10


def test_a_client_whose_messages_are_drawn_from_many_weights_is_read_slowly() -> None:
    core = Core()
    topology = core.broker.vhosts["/"].topology
    client = core.client()
    client.declare_exchange("hash", "x-consistent-hash")
    client.declare("q")
    for number in range(1000):
        topology.bind(topology.exchanges["hash"], topology.queues["q"], str(number + 1), {})
    assert turns_for(core, [published(f"k{number}", b"m", "hash") for number in range(1000)]) >= 10


@pytest.mark.parametrize(
    ("headers", "complaint"),
    [
        ({"CC": ["k"] * 200, "BCC": ["k"] * 57}, "a message may have 256 routing keys in the headers CC and BCC"),
        ({"CC": ["a." * 128]}, "a routing key in the headers CC and BCC may have 255 bytes"),
    ],
)
def test_the_number_and_the_length_of_copy_keys_are_bounded(headers: Table, complaint: str) -> None:
    client = Core().client()
    client.read(published("k", b"m", "amq.topic", Properties(headers=headers)))
    code, text = client.close_reason()
    assert code == 406
    assert complaint in text


def test_a_key_that_is_named_twice_counts_once(core: Core) -> None:
    topology = core.broker.vhosts["/"].topology
    steps = topology.steps
    client = core.client()
    client.read(published("x", b"m", "amq.topic", Properties(headers={"CC": [hostile_key(1)] * 200 + ["last"]})))
    assert topology.steps - steps < 2 * ROUTING_STEPS_A_TURN
    assert drain(client, "q") == [b"m"]
