"""A short run of `bench/fuzz`: hostile clients must not disturb a well-behaved publisher and consumer.

Not here: ten million frames (`make soak`), hostile clients of a real process (`tests/hostile`).
"""

import pytest

from bench.fuzzing.conversations import handshake
from bench.fuzzing.mutations import nesting_bomb
from bench.fuzzing.reduction import failure_of, reduced
from bench.fuzzing.replies import Malformed, Replies
from bench.fuzzing.world import Disturbed, World
from warren.broker.model.events import BytesReceived, ConnectionOpened, Event
from warren.wire.methods import BasicDeliver, ChannelClose, ConnectionClose, ConnectionOpenOk, Method, encode_method

TURNS = 60


@pytest.mark.parametrize("number", range(6))
def test_a_crowd_of_mutants_disturbs_neither_the_node_nor_its_other_clients(number: int) -> None:
    world = World(20260, number)
    world.run(TURNS)
    assert world.mutated > 2000
    # the mutants got past the handshake, and were closed with a reply code
    assert {501, 503, 504, 505} <= set(world.closes)


def test_the_same_seed_is_the_same_world() -> None:
    worlds = [World(5, 1), World(5, 1)]
    for world in worlds:
        world.run(10)
    streams = [[event.data for event in reads_of(world)] for world in worlds]
    assert streams[0] == streams[1]


def test_a_message_of_the_pair_that_is_held_back_is_noticed() -> None:
    world = World(1, 1)
    connection = world.broker.connections[2]
    connection.writes_paused()
    with pytest.raises(Disturbed, match="consumer got"):
        world.run(2)


def test_an_attacker_that_is_not_cut_off_is_noticed() -> None:
    world = World(1, 1)
    with pytest.raises(Disturbed, match="was not cut off"):
        # no timeout is shorter than a second
        world.run(80, pause_ms=1000)


@pytest.mark.parametrize(
    "method",
    [
        ConnectionClose(299, "NO_SUCH - code"),
        ConnectionClose(501, "without the name of its code"),
        ChannelClose(299, "NO_SUCH - code"),
    ],
)
def test_a_close_with_an_unknown_code_is_noticed(method: Method) -> None:
    with pytest.raises(Malformed):
        Replies().read(encode_method(int(isinstance(method, ChannelClose)), method))


def test_a_reply_after_the_connection_was_closed_is_noticed() -> None:
    replies = Replies()
    replies.read(encode_method(0, ConnectionClose(501, "FRAME_ERROR - because")))
    with pytest.raises(Malformed):
        replies.read(encode_method(0, ConnectionOpenOk()))


def test_half_a_frame_and_half_a_delivery_are_noticed() -> None:
    delivery = encode_method(1, BasicDeliver("t", 1))
    with pytest.raises(Malformed):
        Replies().read(delivery[:-1])
    with pytest.raises(Malformed):
        Replies().read(delivery + delivery)


def test_a_harmless_history_is_not_reduced() -> None:
    opening: list[Event] = [ConnectionOpened(1, "127.0.0.1", 1, "127.0.0.1", 2), BytesReceived(1, handshake(0)[0])]
    history = [(1000, opening)]
    assert failure_of(history) == ""
    assert reduced(history) is history


def test_a_nesting_bomb_is_as_deep_as_asked() -> None:
    assert nesting_bomb(3).count(b"\x01aF") == 3


def reads_of(world: World) -> list[BytesReceived]:
    return [event for _, events in world.history for event in events if isinstance(event, BytesReceived)]
