"""A link that is deleted may delete its queue upstream, unless a link with the same URIs still needs it."""

import asyncio

import pytest

from tests.bridges.lone_host import LoneHost
from warren.bridges.federation.links import ExchangeLink
from warren.bridges.federation.upstreams import FederationUpstream

NO_BROKER = "127.0.0.1:1"


def link(name: str, *uris: str, exchange: str = "fx", here: str = "fx") -> ExchangeLink:
    return ExchangeLink("/", here, "topic", FederationUpstream(name, uris, exchange, "", "tag"), "this@cluster")


def tries_to_delete(old: ExchangeLink, *wanted: ExchangeLink) -> bool:
    """A link to a closed port: an attempt to delete its queue is logged as failed."""
    host = LoneHost()
    asyncio.run(old.retire(host, wanted))
    return bool(host.log.of("federation.leftovers_kept"))


OLD = link("old", f"amqp://u:before@{NO_BROKER}")


@pytest.mark.parametrize(
    "other",
    [
        link("new", f"amqp://u:after@{NO_BROKER}"),
        link("new", f"amqp://v:p@{NO_BROKER}/%2F?heartbeat=5"),
        link("new", "amqp://localhost:1/%2F"),
        link("new", "amqp://elsewhere/%2F", f"amqp://{NO_BROKER}/%2F"),
    ],
)
def test_another_link_that_is_wanted_and_has_the_same_queue_there_inherits_it(other: ExchangeLink) -> None:
    assert OLD.successor_among([link("far", "amqp://elsewhere"), other]) is other


@pytest.mark.parametrize(
    "other",
    [
        link("new", "amqp://elsewhere/%2F"),
        link("new", "amqp://127.0.0.1:2/%2F"),
        link("new", f"amqp://{NO_BROKER}/other"),
        link("new", f"amqp://{NO_BROKER}/%2F", exchange="other"),
        link("new", f"amqp://{NO_BROKER}/%2F", here="other"),
    ],
)
def test_a_link_with_another_broker_or_another_queue_there_is_no_reason_to_leave_anything(other: ExchangeLink) -> None:
    assert OLD.successor_among([other]) is None
    assert tries_to_delete(OLD, other)


def test_resources_that_are_to_be_kept_are_kept() -> None:
    upstream = FederationUpstream("up", (f"amqp://{NO_BROKER}",), "fx", "", "tag", keeps_resources=True)
    assert not tries_to_delete(ExchangeLink("/", "fx", "topic", upstream, "this@cluster"))
