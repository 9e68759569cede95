"""The timer of a node: one, for the earliest deadline."""

import gc

from tests.support.core_driver import START_MS, Core, published
from warren.broker.model.effects import Effect, SetTimer
from warren.broker.model.settings import BrokerSettings
from warren.broker.model.turn import CANCELLED_TIMERS_MIN
from warren.broker.sessions.connection import Connection
from warren.wire.methods import QueueDeclare, QueueDelete, encode_method
from warren.wire.properties import Properties


def timers(effects: list[Effect]) -> list[int]:
    """The delay of each timer."""
    return [effect.at_ms - START_MS for effect in effects if isinstance(effect, SetTimer)]


def quiet_core() -> Core:
    """A node without timers of its own."""
    return Core(BrokerSettings(consumer_timeout_ms=0))


def expiring(delay_ms: int) -> bytes:
    return published("q", b"", properties=Properties(expiration=str(delay_ms)))


def test_a_node_with_nothing_to_wait_for_asks_for_no_call() -> None:
    core = quiet_core()
    client = core.client()
    client.lose()
    core.pass_ms(60_000)
    assert core.turn() == []
    assert core.timer_at_ms == 0


def test_the_first_wait_is_ordered_and_a_later_one_is_not() -> None:
    core = quiet_core()
    client = core.client()
    core.pass_ms(20_000)
    client.declare("a", {"x-expires": 5_000})
    assert core.timer_at_ms == START_MS + 25_000
    assert timers(client.say(QueueDeclare(queue="b", arguments={"x-expires": 9_000}))) == []


def test_an_earlier_wait_replaces_the_order() -> None:
    core = quiet_core()
    client = core.client()
    core.pass_ms(20_000)
    client.declare("q")
    assert timers(client.read(expiring(5_000))) == [25_000]
    assert timers(client.say(QueueDeclare(queue="b", arguments={"x-expires": 3_000}))) == [23_000]
    assert timers(client.say(QueueDeclare(queue="c", arguments={"x-expires": 4_000}))) == []


def test_the_next_wait_is_ordered_when_the_first_is_over() -> None:
    core = quiet_core()
    client = core.client()
    core.pass_ms(20_000)
    for name, expires_ms in (("b", 9_000), ("a", 5_000)):
        client.declare(name, {"x-expires": expires_ms})
    assert timers(core.pass_ms(5_000)) == [29_000]
    assert timers(core.pass_ms(4_000)) == []
    assert core.broker.vhosts["/"].topology.queues == {}


def test_a_call_that_comes_early_changes_nothing() -> None:
    core = quiet_core()
    client = core.client()
    core.pass_ms(20_000)
    client.declare("q", {"x-expires": 5_000})
    core.now_ms += 4_999
    assert core.turn() == []
    assert core.timer_at_ms == START_MS + 25_000


def test_a_wait_given_up_leaves_an_order_that_finds_nothing_to_do() -> None:
    core = quiet_core()
    client = core.client()
    core.pass_ms(20_000)
    client.declare("q", {"x-expires": 5_000})
    client.say(QueueDelete(queue="q"))
    assert core.pass_ms(5_000) == []
    assert core.timer_at_ms == 0


def test_a_call_that_comes_late_does_all_that_was_due() -> None:
    core = quiet_core()
    client = core.client()
    for number in range(5):
        client.declare(f"q{number}", {"x-expires": 1_000 * (number + 1)})
    core.now_ms += 3_500
    core.turn()
    assert sorted(core.broker.vhosts["/"].topology.queues) == ["q3", "q4"]


def test_dead_letters_beyond_a_turns_share_ask_for_a_call_at_once() -> None:
    core = quiet_core()
    client = core.client()
    core.pass_ms(20_000)
    client.declare("grave")
    client.declare("short", {"x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"})
    effects = client.publish("short", *[b"x"] * 5000)
    assert timers(effects) == [20_000]
    grave = core.broker.vhosts["/"].topology.queues["grave"]
    assert 0 < grave.ready_count() < 5000
    core.settle()
    assert grave.ready_count() == 5000


def test_lost_connections_are_not_kept_by_the_timers_they_had() -> None:
    core = quiet_core()
    before = living_connections()
    clients = [core.client(heartbeat_s=60_000) for _ in range(20)]
    assert living_connections() == before + 20
    for client in clients:
        client.lose()
    assert living_connections() == before


def test_queues_that_come_and_go_leave_no_timers_behind() -> None:
    core = quiet_core()
    client = core.client()
    day_ms = 24 * 3600 * 1000
    come = encode_method(1, QueueDeclare(queue="q", arguments={"x-expires": day_ms}))
    go = encode_method(1, QueueDelete(queue="q"))
    client.read((come + go) * 10_000)
    assert len(core.broker.turn._timers) <= 2 * int(CANCELLED_TIMERS_MIN)


def living_connections() -> int:
    gc.collect()
    return sum(1 for one in gc.get_objects() if type(one) is Connection)
