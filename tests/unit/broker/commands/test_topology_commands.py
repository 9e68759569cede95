"""Exchanges, queues and bindings declared by an import of definitions."""

import pytest

from tests.support.core_driver import Core
from tests.unit.broker.journal.journal_world import DurableCore
from tests.unit.broker.journal.plain_disk import PlainDisk
from tests.unit.broker.refusals import exchange_of, queue_of, refusal
from warren.broker.commands.requests import DeclareBinding, DeclareExchange, DeclareQueue, PutVhost, SetVhostLimits
from warren.broker.model.events import Command, CommandBatch
from warren.wire.field_tables import Table


def exchange(name: str, type: str = "topic", durable: bool = True, arguments: Table | None = None) -> DeclareExchange:
    return DeclareExchange("/", name, type, durable, False, False, arguments or {})


def queue(name: str, durable: bool = True, arguments: Table | None = None, vhost: str = "/") -> DeclareQueue:
    return DeclareQueue(vhost, name, durable, False, arguments or {})


def binding(source: str, destination: str, to_queue: bool = True, key: str = "k", vhost: str = "/") -> DeclareBinding:
    return DeclareBinding(vhost, source, destination, to_queue, key, {})


def bindings(core: Core, vhost: str = "/") -> list[tuple[str, str, str]]:
    exchanges = core.broker.vhosts[vhost].topology.exchanges.values()
    return [(one.source.name, one.destination.name, one.routing_key) for each in exchanges for one in each.outgoing]


def test_a_binding_may_refer_to_objects_of_the_same_file() -> None:
    core = Core()
    core.command(
        CommandBatch(
            [
                exchange("news"),
                exchange("more", "fanout"),
                queue("q"),
                binding("news", "q", key="a.#"),
                binding("news", "more", to_queue=False),
                binding("amq.direct", "q"),
            ]
        ),
    )
    assert bindings(core) == [("amq.direct", "q", "k"), ("news", "q", "a.#"), ("news", "more", "k")]


def test_a_binding_may_refer_to_predeclared_exchanges_of_a_virtual_host_of_the_same_file() -> None:
    core = Core()
    core.command(
        CommandBatch([PutVhost("v", "", [], None), queue("q", vhost="v"), binding("amq.topic", "q", vhost="v")])
    )
    assert bindings(core, "v") == [("amq.topic", "q", "k")]


def test_existing_objects_are_not_changed() -> None:
    core = Core()
    client = core.client()
    client.declare("q", {"x-max-length": 1})
    client.declare_exchange("x", "fanout")
    kept_queue, kept_exchange = queue_of(core, "q"), exchange_of(core, "x")
    core.command(CommandBatch([queue("q", durable=True), exchange("x", "topic"), exchange("amq.topic", "fanout")]))
    assert queue_of(core, "q") is kept_queue
    assert exchange_of(core, "x") is kept_exchange
    assert exchange_of(core, "amq.topic").type == "topic"
    core.command(CommandBatch([binding("x", "q"), binding("x", "q")]))
    core.command(binding("x", "q"))
    assert bindings(core) == [("x", "q", "k")]


def test_the_binding_that_every_queue_has_is_there() -> None:
    core = Core()
    core.command(CommandBatch([queue("q"), binding("", "q", key="q")]))
    assert bindings(core) == []


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (
            queue("q", arguments={"x-max-length": -1}),
            "invalid arg 'x-max-length' for queue 'q' in vhost '/': {value_negative,-1}",
        ),
        (
            queue("q", durable=False, arguments={"x-queue-type": "quorum"}),
            "invalid property 'non-durable' for queue 'q' in vhost '/'",
        ),
        (queue(""), "queue name must not be empty"),
        (queue("n" * 256), f"queue name is longer than 255 bytes: {'n' * 32}..."),
        (exchange("x", "nosuch"), "unknown exchange type 'nosuch'"),
        (
            exchange("x", "x-delayed-message"),
            "Invalid argument, 'x-delayed-type' must be an existing exchange type",
        ),
        (
            exchange("x", arguments={"alternate-exchange": 1}),
            "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x' in vhost '/'",
        ),
        (binding("nosuch", "there"), "no exchange 'nosuch' in vhost '/'"),
        (binding("amq.direct", "nosuch"), "no queue 'nosuch' in vhost '/'"),
        (binding("amq.direct", "nosuch", to_queue=False), "no exchange 'nosuch' in vhost '/'"),
        (binding("", "there"), "operation not permitted on the default exchange"),
        (binding("amq.direct", "", to_queue=False), "operation not permitted on the default exchange"),
        (binding("amq.direct", "there", key="é" * 128), f"routing key is longer than 255 bytes: {'é' * 32}..."),
    ],
)
def test_a_mistake_is_refused_in_the_words_for_clients_and_nothing_is_made(command: Command, reason: str) -> None:
    core = Core()
    core.command(queue("there"))
    assert refusal(core, CommandBatch([queue("before"), command])) == ("bad_request", reason)
    assert list(core.broker.vhosts["/"].topology.queues) == ["there"]


def test_a_binding_that_its_exchange_could_not_take_is_noticed_before_either_is_made() -> None:
    core = Core()
    hashing = exchange("hash", "x-consistent-hash")
    kind, reason = refusal(core, CommandBatch([hashing, queue("q"), binding("hash", "q", key="no number")]))
    assert kind == "bad_request"
    assert "no number" in reason
    assert "hash" not in core.broker.vhosts["/"].topology.exchanges


def test_nothing_is_made_nowhere() -> None:
    for command in (queue("q", vhost="v"), binding("amq.direct", "q", vhost="v")):
        assert refusal(Core(), command) == ("not_found", "vhost_not_found")


def test_there_are_no_more_queues_than_the_virtual_host_may_have() -> None:
    core = Core()
    core.command(SetVhostLimits("/", {"max-queues": 2}))
    core.command(queue("a"))
    reason = "cannot declare queue 'c': queue limit in vhost '/' (2) is reached"
    assert refusal(core, CommandBatch([queue("b"), queue("c")])) == ("bad_request", reason)
    core.command(CommandBatch([queue("b"), queue("a")]))


def test_durable_objects_are_stored() -> None:
    disk = PlainDisk()
    core = DurableCore(disk)
    core.command(
        CommandBatch(
            [
                exchange("x"),
                queue("q", arguments={"x-max-length": 5}),
                queue("passing", durable=False),
                binding("x", "q"),
                binding("x", "passing"),
            ]
        ),
    )
    again = DurableCore(disk)
    assert list(again.broker.vhosts["/"].topology.queues) == ["q"]
    assert queue_of(again, "q").settings.max_length == 5
    assert bindings(again) == [("x", "q", "k")]
