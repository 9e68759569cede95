"""A shovel that cannot run reports the reason and the end; it consumes nothing meanwhile, and recovers by itself."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.bridges.queue_pair import Unique
from tests.bridges.shovels.conftest import Shoveller
from tests.node.certificate_files import Authority
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess
from tests.support.ports import free_port
from warren.client import blocking


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[str]:
    """The host and TLS port of a node."""
    port = free_port()
    files = authority.server
    lines = [
        f"listeners.ssl.default = 127.0.0.1:{port}",
        f"ssl_options.cacertfile = {authority.path}",
        f"ssl_options.certfile = {files.certificate}",
        f"ssl_options.keyfile = {files.key}",
    ]
    node = NodeProcess(tmp_path_factory.mktemp("secured"), configuration="\n".join(lines))
    yield f"127.0.0.1:{port}"
    node.stop()


def reason(here: Shoveller, name: str, source: str, **changes: object) -> str:
    definition = {"src_uri": source, "src_queue": name, "dest_uri": "amqp://", "dest_queue": f"{name}.copy"}
    with here.shovel(name, **{**definition, **changes}):
        return here.until_reason(name)


def test_the_reason_of_an_unreachable_end_is_reported(here: Shoveller, there: Shoveller, unique: Unique) -> None:
    name, nowhere = unique("from"), f"127.0.0.1:{free_port()}"
    place = there.amqp.partition("@")[2].partition("/")[0]
    troubles = {
        f"amqp://{nowhere}": f"source: cannot connect to {nowhere}: connection refused",
        f"amqp://guest:wrong@{place}": "source: ACCESS_REFUSED - Login was refused using authentication mechanism",
        f"amqp://guest:guest@{place}/nosuch": "source: the broker closed the connection: 530 NOT_ALLOWED - vhost no",
        f"amqps://{place}": f"source: cannot connect to {place}: ",
    }
    for uri, sentence in troubles.items():
        assert reason(here, name, uri).startswith(sentence)
    assert reason(here, name, "amqp://", dest_uri=f"amqp://{nowhere}").startswith("destination: cannot connect to")
    # a shovel with an end that is missing declares nothing
    assert here.call("GET", "queues", "/", name)[0] == 404


def test_a_missing_exchange_is_named_and_nothing_is_consumed(here: Shoveller, unique: Unique) -> None:
    name = unique("from")
    here.fill(name, 3)
    definition = {"src_uri": "amqp://", "src_queue": name, "dest_uri": "amqp://", "dest_exchange": name}
    with here.shovel(name, reconnect_delay=0.2, **definition):
        assert f"destination: the broker closed channel 1: 404 NOT_FOUND - no exchange '{name}'" in here.until_reason(
            name
        )
        assert here.length(name) == 3
        with blocking.connect(here.amqp) as connection:
            channel = connection.channel()
            channel.declare_queue(f"{name}.copy", durable=True)
            channel.bind_queue(f"{name}.copy", "amq.direct", name)
            # it leads to the queue as soon as it is there, for the shovel may come at that moment
            leads_on = {"alternate-exchange": "amq.direct"}
            channel.declare_exchange(name, "fanout", durable=True, arguments=dict(leads_on))
            assert len(here.take(f"{name}.copy", 3)) == 3
            channel.delete_exchange(name)
    here.forget_queues(name, f"{name}.copy")


def test_a_mandatory_message_that_cannot_be_routed_stays_at_the_source(here: Shoveller, unique: Unique) -> None:
    name, copy = unique("from"), unique("to")
    with blocking.connect(here.amqp) as connection:
        channel = connection.channel()
        channel.declare_exchange(name, "fanout", durable=True)
        here.fill(name, 3)
        definition = {"src_uri": "amqp://", "src_queue": name, "dest_uri": "amqp://", "dest_exchange": name}
        with here.shovel(name, reconnect_delay=0.2, dest_mandatory=True, **definition):
            reason = here.until_reason(name)
            assert f"the destination has no queue for messages published to exchange '{name}'" in reason
            assert reason.endswith("such messages stay at the source")
            channel.declare_queue(copy, durable=True)
            channel.bind_queue(copy, name)
            assert [bytes(each.body) for each in here.take(copy, 3)] == [b"0", b"1", b"2"]
        channel.delete_exchange(name)
    here.forget_queues(name, copy)


def test_a_shovel_to_its_own_queue_is_recognised_by_any_uri(here: Shoveller, unique: Unique) -> None:
    name = unique("loop")
    here.fill(name, 5)
    for changes in (
        {"dest_queue": name},
        {"dest_queue": name, "src_uri": here.amqp, "dest_uri": "amqp://"},
        {"dest_exchange": ""},
        {"dest_exchange": "", "dest_exchange_key": name},
    ):
        definition = {"src_uri": "amqp://", "src_queue": name, "dest_uri": here.amqp, **changes}
        with here.shovel(name, **definition):
            assert here.until_reason(name).startswith(f"a shovel from queue '{name}' to itself would carry")
            assert here.row(name)["forwarded"] == 0
    body = {"value": {"src-uri": "amqp://", "src-queue": name, "dest-uri": "amqp://", "dest-queue": name}}
    status, told = here.call("PUT", "parameters", "shovel", "/", name, body=body)
    assert (status, "to itself" in told["reason"]) == (400, True)
    here.forget_queues(name)


def test_a_wrong_certificate_is_reported_and_a_right_one_is_trusted(
    here: Shoveller, authority: Authority, secured: str, unique: Unique
) -> None:
    name = unique("secure")
    assert reason(here, name, f"amqps://{secured}").startswith(
        f"source: cannot connect to {secured}: its certificate is not trusted: "
    )
    missing = f"amqps://{secured}?cacertfile=/nosuch/ca.pem"
    assert "No such file" in reason(here, name, missing)
    trusted = (
        f"amqps://{secured}?cacertfile={quote(authority.path)}&verify=verify_peer&fail_if_no_peer_cert=true&depth=2"
    )
    definition = {"src_uri": trusted, "src_queue": name, "dest_uri": "amqp://", "dest_queue": name}
    with here.shovel(name, **definition):
        here.until_state(name, "running")
    here.forget_queues(name)


def test_one_of_several_uris_is_enough(here: Shoveller, there: Shoveller, unique: Unique) -> None:
    name = unique("several")
    there.fill(name, 2)
    nowhere = [f"amqp://127.0.0.1:{free_port()}" for _ in range(2)]
    definition = {"src_uri": [*nowhere, there.amqp], "src_queue": name, "dest_uri": "amqp://", "dest_queue": name}
    with here.shovel(name, **definition):
        row = here.until_state(name, "running")
        assert row["src_uri"] == there.amqp.replace("guest:guest@", "")
        assert len(here.take(name, 2)) == 2
    here.forget_queues(name)
    there.forget_queues(name)


def test_without_a_delay_it_is_tried_once(here: Shoveller, unique: Unique) -> None:
    name = unique("once")
    exchange = unique("missing")
    definition = {"src_uri": "amqp://", "src_exchange": exchange, "dest_uri": "amqp://", "dest_queue": name}
    with here.shovel(name, reconnect_delay=0, **definition), blocking.connect(here.amqp) as connection:
        since = here.until_state(name, "terminated")["timestamp"]
        channel = connection.channel()
        channel.declare_exchange(exchange, "fanout", durable=True)
        assert (here.row(name)["state"], here.row(name)["timestamp"]) == ("terminated", since)
        # an operator may
        assert here.call("DELETE", "shovels", "vhost", "/", name, "restart")[0] == 204
        here.until_state(name, "running")
        channel.delete_exchange(exchange)
    eventually(lambda: not here.is_defined(name))
    here.forget_queues(name)
