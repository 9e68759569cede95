"""Brokers federated by parameters and policies, as operators do it: Warren and RabbitMQ, either way round."""

import pytest

from tests.bridges.federation.broker_api import BrokerApi
from tests.bridges.queue_pair import Unique
from tests.support.deadlines import PATIENCE_S, eventually
from tests.support.node_process import NodeProcess
from warren.client import Message, Properties, PublishFailed, blocking

Pair = tuple[BrokerApi, BrokerApi]


def bodies(channel: blocking.Channel, queue: str, count: int) -> list[bytes]:
    found: list[bytes] = []

    def more() -> bool:
        delivery = channel.get(queue, no_ack=True)
        if delivery is not None:
            found.append(delivery.body)
        return len(found) >= count

    eventually(more, lambda: f"only {found}")
    return found


def test_messages_published_upstream_reach_the_bound_queues_downstream(pair: Pair, unique: Unique) -> None:
    down, up = pair
    name = unique("fx")
    with blocking.connect(down.amqp) as here, blocking.connect(up.amqp) as there:
        own, far = here.channel(), there.channel(confirms=True)
        own.declare_exchange(name, "topic", durable=True)
        own.declare_queue(name, durable=True)
        own.bind_queue(name, name, "wanted.#")
        down.upstream(name, up.amqp)
        down.federate(name, name)
        link = down.until_linked(name)
        assert (link["type"], link["upstream"], link["upstream_exchange"]) == ("exchange", name, name)
        assert "guest" not in link["uri"]
        for at in range(100):
            far.publish(b"%d" % at, name, f"wanted.{at}")
            far.publish(b"no", name, "unwanted")
        assert bodies(own, name, 100) == [b"%d" % at for at in range(100)]
        own.bind_queue(name, name, "later")
        eventually(lambda: is_routed(far, name, "later"))
        assert bodies(own, name, 1) == [b"later"]
        own.unbind_queue(name, name, "later")
        eventually(lambda: not is_routed(far, name, "later"))
        [queue] = [each for each in up.queues() if each.startswith(f"federation: {name} -> ")]
        down.forget(name, name)
        eventually(lambda: queue not in up.queues())
        own.delete_queue(name)
        own.delete_exchange(name)
        far.delete_exchange(name)


def is_routed(channel: blocking.Channel, exchange: str, key: str) -> bool:
    try:
        channel.publish(key.encode(), exchange, key, mandatory=True)
    except PublishFailed:
        return False
    return True


def test_a_queue_takes_from_upstream_while_it_has_consumers(pair: Pair, unique: Unique) -> None:
    down, up = pair
    name = unique("fq")
    with blocking.connect(down.amqp) as here, blocking.connect(up.amqp) as there:
        own, far = here.channel(), there.channel(confirms=True)
        own.declare_queue(name, durable=True)
        down.upstream(name, up.amqp)
        down.federate(name, name, "queues")
        assert down.until_linked(name)["type"] == "queue"
        for at in range(20):
            far.publish(b"%d" % at, routing_key=name)
        assert far.declare_queue(name, durable=True).messages == 20
        consumer = own.consume(name)
        taken: list[bytes] = []
        while len(taken) < 20:
            batch = consumer.batch(timeout_s=PATIENCE_S)
            taken += [delivery.body for delivery in batch]
            own.ack(batch[-1], multiple=True)
        assert taken == [b"%d" % at for at in range(20)]
        consumer.cancel()
        eventually(lambda: far.declare_queue(name, durable=True).consumers == 0)
        far.publish(b"stays", routing_key=name)
        assert far.declare_queue(name, durable=True).messages == 1
        down.forget(name, name)
        eventually(lambda: down.links(name) == [])
        own.delete_queue(name)
        far.delete_queue(name)


def test_brokers_that_federate_from_each_other_have_every_message_once(
    here: BrokerApi, there: BrokerApi, unique: Unique
) -> None:
    name = unique("ring")
    with blocking.connect(here.amqp) as one, blocking.connect(there.amqp) as two:
        channels = [one.channel(confirms=True), two.channel(confirms=True)]
        for channel, api, other in zip(channels, (here, there), (there, here), strict=True):
            channel.declare_exchange(name, "fanout", durable=True)
            channel.declare_queue(name)
            channel.bind_queue(name, name)
            api.upstream(name, other.amqp, max_hops=7)
            api.federate(name, name)
        for api in (here, there):
            api.until_linked(name)
        eventually(lambda: is_everywhere(channels, name))
        channels[0].publish(b"first", name)
        channels[1].publish(b"second", name)
        for channel in channels:
            assert sorted(words(channel, name, 2)) == [b"first", b"second"]
        # a message that came round again would have arrived before this one
        channels[0].publish(b"last", name)
        for channel in channels:
            assert words(channel, name, 1) == [b"last"]
        for channel, api in zip(channels, (here, there), strict=True):
            api.forget(name, name)
            channel.delete_queue(name)
            channel.delete_exchange(name)


def is_everywhere(channels: list[blocking.Channel], name: str) -> bool:
    """Whether bindings have come so far that a message comes from each to each."""
    for at, channel in enumerate(channels):
        channel.publish(b"%d" % at, name)
    return all({each} <= set(drained(channel, name)) for each, channel in zip((b"1", b"0"), channels, strict=True))


def words(channel: blocking.Channel, queue: str, count: int) -> list[bytes]:
    """So many that are no numbers; of those some may still have been on their way."""
    found: list[bytes] = []
    while len(found) < count:
        found += [body for body in bodies(channel, queue, 1) if not body.isdigit()]
    return found


def drained(channel: blocking.Channel, queue: str) -> list[bytes]:
    found = []
    while (delivery := channel.get(queue, no_ack=True)) is not None:
        found.append(delivery.body)
    return found


def test_a_missing_upstream_is_reported(near: NodeProcess, here: BrokerApi, unique: Unique) -> None:
    name, gone = unique("fx"), unique("gone")
    here.call("PUT", "exchanges", "/", name, body={"type": "topic"})
    here.federate(name, gone)
    eventually(lambda: len(here.links(name)) == 1)
    [row] = here.links(name)
    said = f"the policy names the upstream '{gone}', which virtual host '/' does not have"
    assert (row["status"], row["upstream"]) == ("error", gone)
    assert row["error"].startswith(said)
    assert said in near.log()
    status, down = here.call("GET", "federation-links", "/", "state", "down")
    assert row["id"] in [each["id"] for each in down]
    assert status == 200
    here.forget(name)
    eventually(lambda: here.links(name) == [])
    here.call("DELETE", "exchanges", "/", name)


def test_a_link_that_cannot_connect_says_why_and_runs_when_it_can(
    here: BrokerApi, there: BrokerApi, unique: Unique
) -> None:
    name = unique("fx")
    here.call("PUT", "exchanges", "/", name, body={"type": "topic"})
    wrong = there.amqp.replace("guest:guest", "guest:wrong")
    here.upstream(name, wrong)
    here.federate(name, name)
    eventually(lambda: any("error" in row for row in here.links(name)))
    [row] = here.links(name)
    assert "wrong" not in str(row)
    here.upstream(name, there.amqp.replace("%2F", "nowhere"))
    eventually(
        lambda: any("nowhere" in str(row.get("error")) for row in here.links(name)), lambda: str(here.links(name))
    )
    here.upstream(name, there.amqp)
    here.until_linked(name)
    here.forget(name, name)
    eventually(lambda: here.links(name) == [])
    here.call("DELETE", "exchanges", "/", name)
    there.call("DELETE", "exchanges", "/", name)


@pytest.mark.parametrize("kind", ["exchange", "queue"])
@pytest.mark.parametrize("names_host", [False, True])
def test_an_exchange_or_queue_cannot_be_its_own_upstream_by_any_uri(
    here: BrokerApi, unique: Unique, kind: str, names_host: bool
) -> None:
    name = unique("own")
    here.call("PUT", f"{kind}s", "/", name, body={"type": "topic"} if kind == "exchange" else {})
    here.upstream(name, here.amqp if names_host else "amqp:///%2F")
    here.federate(name, name, f"{kind}s")
    eventually(lambda: any("is its own upstream" in str(row.get("error")) for row in here.links(name)))
    # nothing was made for it
    assert not [queue for queue in here.queues() if queue.startswith(f"federation: {name}")]
    here.forget(name, name)
    here.call("DELETE", f"{kind}s", "/", name)


def test_brokers_whose_clusters_have_one_name_are_still_two(here: BrokerApi, there: BrokerApi, unique: Unique) -> None:
    name = unique("namesake")
    before = there.call("GET", "cluster-name")[1]["name"]
    there.call("PUT", "cluster-name", body={"name": here.call("GET", "cluster-name")[1]["name"]})
    here.call("PUT", "queues", "/", name, body={})
    here.upstream(name, there.amqp)
    here.federate(name, name, "queues")
    here.until_linked(name)
    here.forget(name, name)
    there.call("PUT", "cluster-name", body={"name": before})
    for broker in (here, there):
        broker.call("DELETE", "queues", "/", name)


def test_a_link_is_restarted(here: BrokerApi, there: BrokerApi, unique: Unique) -> None:
    name = unique("fq")
    here.call("PUT", "queues", "/", name, body={"durable": True})
    here.upstream(name, there.amqp)
    here.federate(name, name, "queues")
    link = here.until_linked(name)
    place = ("federation-links", "vhost", "/")
    assert here.call("DELETE", *place, link["id"], link["node"], "restart")[0] == 204
    here.until_linked(name)
    for wrong in ((*place, "nope", link["node"]), (*place, link["id"], "x@y"), ("federation-links", "vhost", "nope")):
        assert here.call("DELETE", *wrong, "restart")[0] == 404
    assert here.call("GET", "federation-links", "nope")[0] == 404
    here.forget(name, name)
    eventually(lambda: here.links(name) == [])
    here.call("DELETE", "queues", "/", name)
    there.call("DELETE", "queues", "/", name)


@pytest.mark.parametrize("killed", ["here", "there"])
def test_nothing_is_lost_when_a_broker_is_killed(
    near: NodeProcess, far: NodeProcess, here: BrokerApi, there: BrokerApi, unique: Unique, killed: str
) -> None:
    name = unique("fx")
    with blocking.connect(here.amqp) as connection:
        own = connection.channel()
        own.declare_exchange(name, "fanout", durable=True)
        own.declare_queue(name, durable=True)
        own.bind_queue(name, name)
    here.upstream(name, there.amqp)
    here.federate(name, name)
    here.until_linked(name)
    with blocking.connect(there.amqp) as connection:
        channel = connection.channel(confirms=True)
        for at in range(2000):
            channel.publish(Message(b"%d" % at, Properties(delivery_mode=2)), name)
            if at == 1000 and killed == "here":
                near.kill()
    if killed == "here":
        near.start()
    else:
        far.crash()
    with blocking.connect(here.amqp) as connection:
        own = connection.channel()
        taken: set[bytes] = set()

        def all_there() -> bool:
            taken.update(drained(own, name))
            return len(taken) == 2000

        eventually(all_there, lambda: f"{len(taken)} of 2000")
        here.forget(name, name)
        own.delete_queue(name)
        own.delete_exchange(name)
