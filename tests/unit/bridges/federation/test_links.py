"""Federation links, their states, and the reasons why a link is missing."""

import pytest

from tests.bridges.lone_host import LoneHost
from warren.bridges.federation.link_set import FederationLinks, federation_status_rows, key_of_link_id
from warren.bridges.federation.links import ExchangeLink, FederatedPair, QueueLink, upstream_vhost
from warren.bridges.host import FederatedObject
from warren.bridges.supervisor import BridgeWorker
from warren.broker.policies.parameters import Parameter


class FederatedHost(LoneHost):
    def __init__(self, *federated: FederatedObject) -> None:
        super().__init__()
        self.things = list(federated)

    def federated(self) -> list[FederatedObject]:
        return self.things


def exchange(name: str = "fx", upstream: str = "up", **more: object) -> FederatedObject:
    return FederatedObject("exchange", "/", name, "fed", {"federation-upstream": upstream}, type="topic", **more)  # type: ignore[arg-type]


def queue(name: str = "fq", **more: object) -> FederatedObject:
    return FederatedObject("queue", "/", name, "fed", {"federation-upstream": "up"}, home="n1", **more)  # type: ignore[arg-type]


def upstream(name: str = "up", **said: object) -> Parameter:
    value = {"uri": "amqp://u:p@far/%2F", **{key.replace("_", "-"): each for key, each in said.items()}}
    return Parameter("/", "federation-upstream", name, value)


def test_each_pair_of_something_federated_and_an_upstream_is_a_link() -> None:
    host = FederatedHost(exchange(), queue())
    host.defined = [upstream()]
    first, second = FederationLinks().wanted(host)
    assert isinstance(first, ExchangeLink)
    assert isinstance(second, QueueLink)
    assert (first.cluster_name, first.connection_name) == ("lone@test", "Federation link (upstream: up, policy: fed)")
    assert (second.home, second.upstream.consumer_tag) == ("n1", "federation-link-up")


def test_objects_that_cannot_be_federated_are_left_out() -> None:
    host = FederatedHost(
        exchange(""),
        exchange("hidden", internal=True),
        exchange("helper", arguments={"x-internal-purpose": "federation"}),
        queue("helper", arguments={"x-internal-purpose": "federation"}),
        queue("log", arguments={"x-queue-type": "stream"}),
    )
    host.defined = [upstream()]
    assert list(FederationLinks().wanted(host)) == []


def test_a_link_is_another_one_only_if_something_of_it_has_changed() -> None:
    host = FederatedHost(exchange())
    host.defined = [upstream()]
    [one] = FederationLinks().wanted(host)
    host.things = [
        FederatedObject("exchange", "/", "fx", "fed", {"federation-upstream": "up", "extra": 1}, type="topic")
    ]
    [same] = FederationLinks().wanted(host)
    host.defined = [upstream(max_hops=4)]
    [other] = FederationLinks().wanted(host)
    assert one == same
    assert one != other
    assert one.key == other.key


def test_an_upstream_that_is_not_there_is_logged_once_and_shown() -> None:
    host = FederatedHost(exchange(upstream="gone"))
    links = FederationLinks()
    assert list(links.wanted(host)) == list(links.wanted(host)) == []
    [line] = host.log.of("federation.upstream_missing")
    assert (line["exchange"], line["upstream"]) == ("fx", "gone")
    [row] = federation_status_rows("n1", {}, links.missing)
    assert (row["exchange"], row["upstream"], row["status"]) == ("fx", "gone", "error")
    assert "which virtual host '/' does not have" in str(row["error"])
    host.defined = [upstream("gone")]
    assert len(list(links.wanted(host))) == 1
    assert links.missing == []


def test_links_are_shown_as_rabbitmq_shows_them() -> None:
    host = FederatedHost(exchange(), queue())
    host.defined = [upstream(exchange="theirs", queue="their-queue")]
    keepers = {link.key: BridgeWorker(host, link, lambda keeper: None) for link in FederationLinks().wanted(host)}
    first, second = keepers.values()
    first.state, first.facts = "running", {"uri": "amqp://far/%2F", "local_connection": "here"}
    second.state, second.reason = "terminated", "cannot connect"
    shown = federation_status_rows("n1", keepers, [])
    for row in shown:
        del row["timestamp"], row["id"]
    assert shown == [
        {
            "node": "n1",
            "exchange": "fx",
            "upstream_exchange": "theirs",
            "type": "exchange",
            "vhost": "/",
            "upstream": "up",
            "status": "running",
            "local_connection": "here",
            "uri": "amqp://far/%2F",
            "forwarded": 0,
            "uncertain": 0,
        },
        {
            "node": "n1",
            "queue": "fq",
            "upstream_queue": "their-queue",
            "consumer_tag": "federation-link-up",
            "type": "queue",
            "vhost": "/",
            "upstream": "up",
            "status": "error",
            "error": "cannot connect",
            "uri": "amqp://far/%2F",
            "forwarded": 0,
            "uncertain": 0,
        },
    ]


@pytest.mark.parametrize(("ack_mode", "forwarded"), [("on-confirm", 3), ("on-publish", 5), ("no-ack", 5)])
def test_without_confirms_a_message_counts_as_forwarded_when_it_is_sent(ack_mode: str, forwarded: int) -> None:
    host = FederatedHost(exchange(), queue())
    host.defined = [upstream(ack_mode=ack_mode)]
    keepers = {link.key: BridgeWorker(host, link, lambda keeper: None) for link in FederationLinks().wanted(host)}
    for keeper in keepers.values():
        keeper.stats.published, keeper.stats.confirmed = 5, 3
    assert [row["forwarded"] for row in federation_status_rows("n1", keepers, [])] == [forwarded, forwarded]


def test_a_link_is_found_by_its_id() -> None:
    host = FederatedHost(exchange())
    host.defined = [upstream()]
    keepers = {link.key: BridgeWorker(host, link, lambda keeper: None) for link in FederationLinks().wanted(host)}
    [row] = federation_status_rows("n1", keepers, [])
    assert key_of_link_id("/", str(row["id"]), keepers) == next(iter(keepers))
    assert key_of_link_id("/", "00000000", keepers) is None
    assert key_of_link_id("other", str(row["id"]), keepers) is None


def test_nothing_takes_from_itself() -> None:
    itself = FederatedPair("exchange", "/", "fx", "fx")
    with pytest.raises(ValueError, match="'fx' of virtual host '/' is its own upstream"):
        itself.check_uris(["amqp://far", "amqp:///%2F"])
    with pytest.raises(ValueError, match="is its own upstream"):
        itself.check_uris(["amqp://"])
    FederatedPair("exchange", "/", "fx", "other").check_uris(["amqp://"])
    itself.check_uris(["amqp:///elsewhere", "amqp://far"])


@pytest.mark.parametrize(
    ("uri", "vhost"),
    [("amqp://far", "own"), ("amqp://far/", "/"), ("amqp://far/%2F", "/"), ("amqp:///v", "v"), ("amqp://", "own")],
)
def test_a_uri_without_a_virtual_host_means_the_same_as_here(uri: str, vhost: str) -> None:
    assert upstream_vhost(uri, "own") == vhost
