"""`warren ctl` commands about streams."""

import json

import pytest

from tests.ctl.conftest import Ctl
from tests.node.serving import Serving
from tests.support.amqp_client import Connection


@pytest.mark.usefixtures("node")
def test_groups_are_listed_with_lag_and_active_members(node: Serving, ctl: Ctl) -> None:
    host, port = node.address()
    connection = Connection.opened((host, port))
    channel = connection.channel()
    arguments = {"x-queue-type": "stream", "x-stream-partitions": 2}
    channel.call("queue.declare", queue="visits", durable=True, arguments=arguments)
    channel.confirm()
    channel.publish("", "visits-0", b"m")
    channel.confirms([1])
    channel.call("basic.qos", prefetch_count=10)
    channel.consume("visits", arguments={"x-stream-group": "pages", "x-stream-member": "one"})
    channel.deliveries(1)
    said = ctl("-q", "list_stream_groups")
    assert (said.code, said.out.splitlines()) == (
        0,
        [
            "stream\tpartition\tname\toffset\tlag\tactive\tmembers",
            "visits\t0\tpages\t\t1\tone\tone (active)",
            "visits\t1\tpages\t\t0\tone\tone (active)",
        ],
    )
    found = json.loads(ctl("-q", "--formatter", "json", "list_stream_groups", "queue", "end").out)
    assert found == [{"queue": "visits-0", "end": 1}, {"queue": "visits-1", "end": 0}]
    connection.close()
