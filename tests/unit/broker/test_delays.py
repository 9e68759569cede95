"""Messages of an x-delayed-message exchange: how many, in which order, and their queues."""

import pytest

from tests.support.core_driver import Client, Core, published, spoken
from warren.wire.field_tables import Table
from warren.wire.methods import (
    ExchangeBind,
    ExchangeDelete,
    QueueBind,
    QueueDelete,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from warren.wire.properties import Properties, decode_properties


@pytest.fixture
def client(core: Core) -> Client:
    """Consumes from `q`, which is bound to the delaying exchange `late` by the key `k`."""
    client = core.client()
    client.declare_exchange("late", "x-delayed-message", {"x-delayed-type": "direct"})
    client.declare("q")
    client.bind("q", "late")
    client.consume("q", no_ack=True)
    client.heard()
    # the handshake's timer has fired
    core.pass_ms(60_000)
    return client


def held_back(core: Core, name: str = "late") -> int:
    vhost = core.broker.vhosts["/"]
    return vhost.delays.count(vhost.topology.exchanges[name])


def delayed(milliseconds: int, body: bytes = b"", key: str = "k", exchange: str = "late") -> bytes:
    return published(key, body, exchange, Properties(headers={"x-delay": milliseconds}))


def test_messages_are_counted_while_they_wait(core: Core, client: Client) -> None:
    client.declare_exchange("other", "x-delayed-message", {"x-delayed-type": "fanout"})
    client.read(delayed(10) + delayed(20) + delayed(20, exchange="other"))
    assert [held_back(core, name) for name in ("late", "other")] == [2, 1]
    core.pass_ms(10)
    assert [held_back(core, name) for name in ("late", "other")] == [1, 1]
    core.pass_ms(10)
    assert [held_back(core, name) for name in ("late", "other")] == [0, 0]


def test_nothing_comes_a_millisecond_early(core: Core, client: Client) -> None:
    client.read(delayed(1000, b"late"))
    core.pass_ms(999)
    assert client.bodies() == []
    core.pass_ms(1)
    assert client.bodies() == [b"late"]


def test_the_soonest_goes_first_and_equals_keep_their_order(core: Core, client: Client) -> None:
    waits = [30, 10, 20, 10, 30, 20]
    client.read(b"".join(delayed(wait, b"%d/%d" % (wait, number)) for number, wait in enumerate(waits)))
    core.pass_ms(30)
    assert client.bodies() == [b"10/1", b"10/3", b"20/2", b"20/5", b"30/0", b"30/4"]


def test_a_sooner_one_that_comes_later_is_not_held_up(core: Core, client: Client) -> None:
    client.read(delayed(60_000, b"slow"))
    client.read(delayed(5, b"quick"))
    core.pass_ms(5)
    assert client.bodies() == [b"quick"]
    core.pass_ms(60_000)
    assert client.bodies() == [b"slow"]


def test_all_that_is_overdue_leaves_in_one_turn(core: Core, client: Client) -> None:
    client.read(b"".join(delayed(wait, b"%d" % wait) for wait in range(1, 50)))
    core.now_ms += 1000
    core.turn()
    assert len(client.bodies()) == 49


def test_the_header_is_negated_when_the_message_leaves(core: Core, client: Client) -> None:
    client.read(delayed(250))
    core.pass_ms(250)
    (heard,) = client.heard()
    assert decode_properties(heard.header, 0, len(heard.header)).headers == {"x-delay": -250}


def test_a_deleted_exchange_drops_its_delayed_messages(core: Core, client: Client) -> None:
    client.read(delayed(100) + spoken(ExchangeDelete(exchange="late")))
    core.pass_ms(100)
    assert client.names() == ["exchange.delete-ok"]


def test_delayed_messages_of_a_deleted_exchange_do_not_go_to_its_alternate(core: Core, client: Client) -> None:
    client.bind("q", "amq.fanout")
    arguments: Table = {"x-delayed-type": "direct", "alternate-exchange": "amq.fanout"}
    client.declare_exchange("last", "x-delayed-message", arguments)
    client.read(delayed(100, b"unbound", exchange="last"))
    core.pass_ms(100)
    assert client.bodies() == [b"unbound"]
    client.read(delayed(100, b"dropped", exchange="last") + spoken(ExchangeDelete(exchange="last")))
    core.pass_ms(100)
    assert client.names() == ["exchange.delete-ok"]


def test_an_exchange_declared_again_does_not_inherit_delayed_messages(core: Core, client: Client) -> None:
    client.read(delayed(100, b"of the first") + spoken(ExchangeDelete(exchange="late")))
    client.declare_exchange("late", "x-delayed-message", {"x-delayed-type": "direct"})
    client.bind("q", "late")
    assert held_back(core) == 0
    client.read(delayed(100, b"of the second"))
    core.pass_ms(100)
    assert client.bodies() == [b"of the second"]


def test_the_bindings_of_the_moment_decide(core: Core, client: Client) -> None:
    client.declare("r")
    client.read(delayed(100, b"x"))
    client.say(
        QueueUnbind(queue="q", exchange="late", routing_key="k"), QueueBind(queue="r", exchange="late", routing_key="k")
    )
    client.heard()
    core.pass_ms(100)
    assert client.heard() == []
    assert core.broker.vhosts["/"].topology.queues["r"].ready_count() == 1


def test_a_queue_deleted_meanwhile_is_not_missed(core: Core, client: Client) -> None:
    client.read(delayed(100) + spoken(QueueDelete(queue="q")))
    core.pass_ms(100)
    assert held_back(core) == 0


def test_a_message_that_waited_is_not_held_back_by_the_next_delaying_exchange(core: Core, client: Client) -> None:
    client.declare_exchange("outer", "x-delayed-message", {"x-delayed-type": "fanout"})
    client.say(ExchangeBind(destination="late", source="outer", routing_key=""))
    client.heard()
    client.read(delayed(100, b"x", exchange="outer"))
    core.pass_ms(100)
    assert client.bodies() == [b"x"]
    assert [held_back(core, name) for name in ("outer", "late")] == [0, 0]


def test_a_publisher_that_leaves_does_not_take_its_delayed_messages_along(core: Core, client: Client) -> None:
    other = core.client()
    other.read(delayed(100, b"x"))
    other.lose()
    core.pass_ms(100)
    assert client.bodies() == [b"x"]


@pytest.mark.parametrize(("end", "delivered"), [(TxCommit(), 1), (TxRollback(), 0)])
def test_a_delay_in_a_transaction_begins_at_commit(
    core: Core, client: Client, end: TxCommit | TxRollback, delivered: int
) -> None:
    client.say(TxSelect())
    client.read(delayed(100))
    core.pass_ms(1000)
    assert held_back(core) == 0
    client.say(end)
    assert held_back(core) == delivered
    client.heard()
    core.pass_ms(99)
    assert client.heard() == []
    core.pass_ms(1)
    assert len(client.heard()) == delivered
