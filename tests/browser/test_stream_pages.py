"""The page of a stream: its partitions, its named readers, and their lag."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.site import Site
from tests.browser.visitor import Visitor
from tests.support.amqp_client import Channel, Connection


@pytest.fixture
def member(site: Site, vhost: str) -> Iterator[Channel]:
    """A reader of `readings` in the group `meters` that has acked three of the five messages of partition 0."""
    site.make_queue(vhost, "readings", **{"x-queue-type": "stream", "x-stream-partitions": 2})
    site.publish(vhost, "readings-0", "m", 5)
    connection = Connection.opened(site.amqp, vhost)
    channel = connection.channel()
    channel.call("basic.qos", prefetch_count=10)
    channel.consume("readings", "t", arguments={"x-stream-group": "meters", "x-stream-member": "desk"})
    channel.ack(channel.deliveries(5)[2].delivery_tag, multiple=True)
    yield channel
    connection.close()


@pytest.mark.usefixtures("member")
def test_the_page_of_a_stream_shows_how_far_a_group_lags(visitor: Visitor, vhost: str) -> None:
    visitor.set_pace(1)
    visitor.go("queues", vhost, "readings")
    expect(visitor.panel("Rules")).to_contain_text("readings-0, readings-1")
    table = visitor.table("Groups and named readers")
    first = table.locator("tbody tr").filter(has_text="readings-0")
    expect(first.locator("td, th")).to_have_text(["meters", "readings-0", "2", "2", "5", "desk"])
    expect(first.locator(".badge")).to_have_class("badge good")
    second = table.locator("tbody tr").filter(has_text="readings-1")
    expect(second.locator("td, th")).to_have_text(["meters", "readings-1", "0", "nothing", "0", "desk"])


@pytest.mark.usefixtures("member")
def test_the_page_of_a_partition_shows_only_its_own_readers(visitor: Visitor, vhost: str) -> None:
    visitor.go("queues", vhost, "readings-1")
    expect(visitor.table("Groups and named readers").locator("tbody tr")).to_have_count(1)


def test_the_page_of_another_queue_has_no_such_part(visitor: Visitor, site: Site, vhost: str) -> None:
    site.make_queue(vhost, "plain")
    visitor.go("queues", vhost, "plain")
    expect(visitor.panel("Rules")).to_contain_text("running")
    expect(visitor.page.get_by_role("heading", name="Groups and named readers")).not_to_be_visible()
