"""Whose queue upstream a link that is wanted no more may delete: nobody's who is wanted, by URIs alone."""

import asyncio

import pytest

from tests.bridges.lone_host import LoneHost
from warren.bridges.federation.links import ExchangeLink
from warren.bridges.federation.upstreams import FederationUpstream

NOBODY = "127.0.0.1:1"


def link(name: str, *uris: str, exchange: str = "fx", here: str = "fx") -> ExchangeLink:
    return ExchangeLink("/", here, "topic", FederationUpstream(name, uris, exchange, "", "tag"), "this@cluster")


def tries_to_delete(old: ExchangeLink, *wanted: ExchangeLink) -> bool:
    """Nobody answers there, so that whoever tries says that he could not."""
    host = LoneHost()
    asyncio.run(old.retire(host, wanted))
    return bool(host.log.of("federation.leftovers_kept"))


OLD = link("old", f"amqp://u:before@{NOBODY}")


@pytest.mark.parametrize(
    "other",
    [
        link("new", f"amqp://u:after@{NOBODY}"),
        link("new", f"amqp://v:p@{NOBODY}/%2F?heartbeat=5"),
        link("new", "amqp://localhost:1/%2F"),
        link("new", "amqp://elsewhere/%2F", f"amqp://{NOBODY}/%2F"),
    ],
)
def test_another_link_that_is_wanted_and_has_the_same_queue_there_inherits_it(other: ExchangeLink) -> None:
    assert OLD.successor_among([link("far", "amqp://elsewhere"), other]) is other


@pytest.mark.parametrize(
    "other",
    [
        link("new", "amqp://elsewhere/%2F"),
        link("new", "amqp://127.0.0.1:2/%2F"),
        link("new", f"amqp://{NOBODY}/other"),
        link("new", f"amqp://{NOBODY}/%2F", exchange="other"),
        link("new", f"amqp://{NOBODY}/%2F", here="other"),
    ],
)
def test_a_link_with_another_broker_or_another_queue_there_is_no_reason_to_leave_anything(other: ExchangeLink) -> None:
    assert OLD.successor_among([other]) is None
    assert tries_to_delete(OLD, other)


def test_what_is_to_be_kept_is_kept() -> None:
    upstream = FederationUpstream("up", (f"amqp://{NOBODY}",), "fx", "", "tag", keeps_resources=True)
    assert not tries_to_delete(ExchangeLink("/", "fx", "topic", upstream, "this@cluster"))
