"""How far messages and bindings travel through several brokers, which here are virtual hosts of one."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.bridges.federation.broker_api import BrokerApi
from tests.bridges.queue_pair import Unique
from tests.support.deadlines import eventually
from warren.client import blocking

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


class Chain:
    """Virtual hosts of which each takes from the one before it."""

    def __init__(self, api: BrokerApi, names: list[str], max_hops: int, *, ring: bool = False) -> None:
        self.api = api
        self.names = names
        for name in names:
            api.call("PUT", "vhosts", name, body={})
            api.call("PUT", "permissions", name, "guest", body=EVERYTHING)
            api.call("PUT", "exchanges", name, "fx", body={"type": "topic", "durable": True})
        pairs = list(pairwise(names)) + ([(names[-1], names[0])] if ring else [])
        for before, name in pairs:
            value = {"uri": api.amqp.replace("%2F", before), "max-hops": max_hops, "reconnect-delay": 1}
            api.call("PUT", "parameters", "federation-upstream", name, "up", body={"value": value})
            policy = {"pattern": "^fx$", "apply-to": "exchanges", "definition": {"federation-upstream": "up"}}
            api.call("PUT", "policies", name, "fed", body=policy)
        eventually(lambda: self.running() == len(pairs), lambda: str(api.call("GET", "federation-links")))

    def running(self) -> int:
        rows = self.api.call("GET", "federation-links")[1]
        return sum(row["vhost"] in self.names and row["status"] == "running" for row in rows)

    def bound_at(self, vhost: str) -> list[str]:
        """The routing keys with which links are bound to the exchange there."""
        rows = self.api.call("GET", "exchanges", vhost, "fx", "bindings", "source")[1]
        return sorted(row["routing_key"] for row in rows if row["destination_type"] == "exchange")


@pytest.fixture
def made(here: BrokerApi) -> Iterator[list[str]]:
    names: list[str] = []
    yield names
    for name in names:
        here.call("DELETE", "vhosts", name)


@pytest.mark.parametrize(("max_hops", "reached"), [(1, 1), (2, 2), (3, 3)])
def test_a_binding_goes_as_far_back_as_messages_may_come(
    here: BrokerApi, made: list[str], unique: Unique, max_hops: int, reached: int
) -> None:
    made += [unique(name) for name in "abcd"]
    chain = Chain(here, made, max_hops)
    queue = f"{made[-1]}-q"
    here.call("PUT", "queues", made[-1], queue, body={"durable": True})
    here.call("POST", "bindings", made[-1], "e", "fx", "q", queue, body={"routing_key": "news"})
    furthest = made[-1 - reached]
    eventually(lambda: chain.bound_at(furthest) == ["news"], lambda: str([chain.bound_at(name) for name in made]))
    beyond = made[: -1 - reached]
    with blocking.connect(here.amqp.replace("%2F", furthest)) as connection:
        connection.channel(confirms=True).publish(b"from afar", "fx", "news", mandatory=True)
    eventually(lambda: here.call("GET", "queues", made[-1], queue)[1].get("messages") == 1)
    got = here.call(
        "POST", "queues", made[-1], queue, "get", body={"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    )[1]
    hops = got[0]["properties"]["headers"]["x-received-from"]
    assert [hop["vhost"] for hop in hops] == made[-2 : -2 - reached : -1]
    assert [chain.bound_at(name) for name in beyond] == [[] for _ in beyond]


def test_a_ring_ends_though_it_has_hops_left(here: BrokerApi, made: list[str], unique: Unique) -> None:
    made += [unique(name) for name in "abc"]
    chain = Chain(here, made, 100, ring=True)
    for name in made:
        here.call("PUT", "queues", name, "q", body={"durable": True})
        here.call("POST", "bindings", name, "e", "fx", "q", "q", body={"routing_key": "#"})
    # each binding goes round until it would come home
    eventually(
        lambda: [len(chain.bound_at(name)) for name in made] == [2, 2, 2], lambda: str(list(map(chain.bound_at, made)))
    )
    with blocking.connect(here.amqp.replace("%2F", made[0])) as connection:
        channel = connection.channel(confirms=True)
        for at in range(50):
            channel.publish(b"%d" % at, "fx", "key")

    def seen() -> list[object]:
        return [here.call("GET", "queues", name, "q")[1].get("messages") for name in made]

    eventually(lambda: seen() == [50, 50, 50], lambda: str(seen()))
    with blocking.connect(here.amqp.replace("%2F", made[2])) as connection:
        connection.channel(confirms=True).publish(b"last", "fx", "key")
    eventually(lambda: seen() == [51, 51, 51], lambda: str(seen()))
