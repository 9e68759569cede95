"""Work that would take longer than a turn may is spread over several turns, and ends as if it had been done in one."""

import pytest

from tests.support.core_driver import Client, Core, published, spoken
from warren.broker.commands.requests import DeleteVhost, EmptyVhost, PutVhost, SetPermission, SetPolicy
from warren.broker.model.turn import FREED_A_TURN, METHOD_WORK
from warren.broker.policies.policies import Policy
from warren.broker.queues.limits import AT_ONCE
from warren.broker.routing.topology_transactions import REMOVED_AT_ONCE
from warren.broker.sessions.tx_methods import COMMITTED_AT_ONCE
from warren.broker.vhost import QUEUES_AT_ONCE
from warren.wire.methods import (
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
)
from warren.wire.properties import Properties


@pytest.fixture
def core() -> Core:
    return Core()


def queues(core: Core, vhost: str = "/") -> int:
    return len(core.broker.vhosts[vhost].topology.queues)


def ready(core: Core, name: str) -> int:
    return int(core.broker.vhosts["/"].topology.queues[name].ready_count())


def declared(count: int, **flags: bool) -> bytes:
    return b"".join(spoken(QueueDeclare(f"q{number}", nowait=True, **flags)) for number in range(count))


def fill(core: Core, client: Client, queue: str, count: int, properties: Properties | None = None) -> None:
    client.read(published(queue, b"x", properties=properties) * count)
    core.settle()
    assert ready(core, queue) >= count


def limit(name: str, pattern: str, length: int) -> SetPolicy:
    return SetPolicy(Policy("/", name, pattern, "queues", {"max-length": length}, 0), False)


def answers(client: Client, kind: type[Method]) -> list[Method]:
    return [method for method in client.methods() if isinstance(method, kind)]


def test_methods_of_one_read_are_spread_over_turns(core: Core) -> None:
    client, other = core.client(), core.client()
    budget = int(core.broker.turn.work_a_turn) // int(METHOD_WORK)
    client.read(declared(3 * budget))
    assert 0 < queues(core) <= budget
    other.declare("served")
    core.settle()
    assert queues(core) == 3 * budget + 1


def test_a_purged_or_deleted_queue_is_empty_at_once_and_freed_in_slices(core: Core) -> None:
    client = core.client()
    client.declare("q")
    count = 2 * int(FREED_A_TURN)
    for ending, answer in ((QueuePurge("q"), QueuePurgeOk(count)), (QueueDelete("q"), QueueDeleteOk(count))):
        fill(core, client, "q", count)
        client.heard()
        client.say(ending)
        assert client.methods() == [answer]
        assert core.held_bytes() == 0
        assert core.broker.turn.discards
        core.settle()
        assert not core.broker.turn.discards


def test_a_purge_leaves_unacked_messages_alone(core: Core) -> None:
    client = core.client()
    client.declare("q")
    fill(core, client, "q", 3)
    client.say(BasicGet("q"))
    held = core.held_bytes()
    client.say(QueuePurge("q"))
    assert ready(core, "q") == 0
    assert core.held_bytes() == held // 3
    core.broker.check()


def expiring(core: Core, client: Client, count: int) -> None:
    """So many messages that are due, behind one that is not."""
    client.declare("q")
    client.publish("q", b"head")
    fill(core, client, "q", count, Properties(expiration="1"))
    client.publish("q", b"last")
    core.pass_ms(10)
    assert ready(core, "q") == count + 2


def test_messages_that_expire_at_once_do_so_in_slices_and_none_is_delivered(core: Core) -> None:
    client = core.client()
    expiring(core, client, 6 * int(AT_ONCE))
    client.heard()
    client.say(BasicGet("q", no_ack=True), BasicGet("q", no_ack=True))
    assert ready(core, "q") > int(AT_ONCE)
    core.settle()
    assert client.bodies() == [b"head", b"last"]


# two slices use up the budget of a turn, and then no message is due
@pytest.mark.parametrize("slices", [2, 5])
def test_a_consumer_gets_the_message_behind_those_that_expire(core: Core, slices: int) -> None:
    client = core.client()
    expiring(core, client, slices * int(AT_ONCE))
    client.heard()
    client.say(BasicConsume("q", no_ack=True, nowait=True))
    core.settle()
    assert client.bodies() == [b"head", b"last"]


def test_a_get_that_waits_for_messages_to_expire_finds_an_empty_queue(core: Core) -> None:
    client = core.client()
    expiring(core, client, 3 * int(AT_ONCE))
    client.heard()
    client.say(*[BasicGet("q", no_ack=True)] * 3)
    core.settle()
    assert [type(method) for method in client.methods()] == [BasicGetOk, BasicGetOk, BasicGetEmpty]


def test_a_policy_with_a_limit_drops_a_long_queue_in_slices(core: Core) -> None:
    client = core.client()
    client.declare("q")
    fill(core, client, "q", 3 * int(AT_ONCE))
    core.broker.turn.work_a_turn = 1
    core.command(limit("short", "q", 1))
    core.settle()
    assert ready(core, "q") == 1


def test_a_policy_reaches_every_one_of_many_queues(core: Core) -> None:
    client = core.client()
    count = 2 * QUEUES_AT_ONCE + 1
    client.read(declared(count))
    core.settle()
    core.command(limit("all", "^q", 5))
    core.command(limit("all", "^q", 6))
    core.settle()
    found = core.broker.vhosts["/"].topology.queues.values()
    assert {str(queue.effective_policy) for queue in found} == {"{'max-length': 6}"}
    core.broker.check()


def test_the_exclusive_queues_of_a_lost_connection_are_deleted_in_slices(core: Core) -> None:
    client = core.client()
    client.read(declared(2 * QUEUES_AT_ONCE + 1, exclusive=True))
    core.settle()
    client.lose()
    assert 0 < queues(core) <= QUEUES_AT_ONCE + 1
    core.settle()
    assert queues(core) == 0


@pytest.mark.parametrize(
    ("ending", "answer"), [(QueueDelete("q0"), QueueDeleteOk()), (ExchangeDelete("hub"), ExchangeDeleteOk())]
)
def test_a_delete_with_very_many_bindings_is_answered_when_all_are_gone(
    core: Core, ending: Method, answer: Method
) -> None:
    client = core.client()
    client.declare("q0")
    client.declare_exchange("hub", "topic")
    binds = [spoken(QueueBind("q0", "hub", f"k{key}", nowait=True)) for key in range(2 * REMOVED_AT_ONCE + 1)]
    client.read(b"".join(binds))
    core.settle()
    client.heard()
    client.say(ending)
    assert client.methods() == []
    core.settle()
    assert client.methods() == [answer]
    topology = core.broker.vhosts["/"].topology
    assert topology.some_bindings(1) == []
    assert ("q0" in topology.queues, "hub" in topology.exchanges) == (
        isinstance(ending, ExchangeDelete),
        isinstance(ending, QueueDelete),
    )


def test_a_vhost_is_emptied_in_slices_bindings_first(core: Core) -> None:
    core.command(PutVhost("v", "", [], None))
    core.command(SetPermission("guest", "v", ".*", ".*", ".*"))
    client = core.client(vhost="v")
    client.read(declared(REMOVED_AT_ONCE + 5))
    client.read(b"".join(spoken(QueueBind("q0", "amq.topic", f"k{key}", nowait=True)) for key in range(3)))
    core.settle()
    assert [core.command(EmptyVhost("v")) for _ in range(4)] == [3, REMOVED_AT_ONCE, 5, 0]
    core.command(DeleteVhost("v"))
    assert "v" not in core.broker.vhosts


def test_a_large_transaction_is_answered_when_all_of_it_is_in_the_queue(core: Core) -> None:
    client = core.client()
    client.declare("q")
    client.say(TxSelect())
    count = 2 * COMMITTED_AT_ONCE + 1
    client.read(published("q", b"x") * count)
    core.settle()
    client.heard()
    client.say(TxCommit())
    assert client.methods() == []
    assert ready(core, "q") == COMMITTED_AT_ONCE
    core.settle()
    assert answers(client, TxCommitOk) == [TxCommitOk()]
    assert ready(core, "q") == count
    client.say(QueuePurge("q"))
    assert core.held_bytes() == 0
