"""Connections and channels of real clients, and the way to end one."""

from collections.abc import Iterator

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import expect

from tests.browser.site import Site
from tests.browser.visitor import Visitor


@pytest.fixture
def channel(site: Site, vhost: str) -> Iterator[BlockingChannel]:
    """A client's channel with confirms, a prefetch and one consumer."""
    host, port = site.amqp
    client = {"connection_name": "burrow <b>digger</b>"}
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, port, vhost, client_properties=client))
    channel = connection.channel()
    channel.queue_declare("earth")
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("earth", lambda *_: None, consumer_tag="spade")
    channel.basic_publish("", "earth", b"clod")
    yield channel
    if connection.is_open:
        connection.close()


def test_a_client_is_seen_from_connection_to_channel_to_consumer(
    visitor: Visitor, channel: BlockingChannel, vhost: str
) -> None:
    visitor.go("connections")
    visitor.choose_vhost(vhost)
    row = visitor.row("Connections", "burrow <b>digger</b>")
    expect(row).to_contain_text("running")
    row.get_by_role("link").click()
    expect(visitor.heading).to_contain_text("->")
    expect(visitor.panel("Details")).to_contain_text("burrow <b>digger</b>")
    expect(visitor.panel("Details")).to_contain_text("AMQP 0-9-1")
    expect(visitor.panel("Client")).to_contain_text("Pika Python Client Library")

    visitor.table("Channels").get_by_role("link").click()
    expect(visitor.heading).to_contain_text("(1)")
    expect(visitor.panel("Details")).to_contain_text("confirms")
    expect(visitor.row("Consumers", "earth")).to_contain_text("spade")
    expect(visitor.row("Consumers", "earth")).to_contain_text("7")

    visitor.row("Consumers", "earth").get_by_role("link").click()
    expect(visitor.heading).to_have_text("earth")
    expect(visitor.table("Consumers")).to_contain_text("spade")
    visitor.go("channels")
    expect(visitor.table("Channels").locator("tbody tr")).to_have_count(1)


def test_a_connection_is_closed_with_the_reason_that_was_given(
    visitor: Visitor, site: Site, channel: BlockingChannel, vhost: str
) -> None:
    visitor.go("connections")
    visitor.choose_vhost(vhost)
    visitor.row("Connections", "burrow <b>digger</b>").get_by_role("link").click()
    visitor.panel("Close this connection")
    visitor.page.get_by_label("Reason").fill("the roof is leaking")
    visitor.page.get_by_role("button", name="Close the connection").click()
    visitor.confirm("Close")
    expect(visitor.heading).to_have_text("Connections")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        channel.start_consuming()
    assert (closed.value.reply_code, closed.value.reply_text) == (320, "CONNECTION_FORCED - the roof is leaking")
    expect(visitor.row("Connections", "burrow <b>digger</b>")).to_have_count(0)
