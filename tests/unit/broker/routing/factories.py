"""Queues, messages and exchanges for routing tests, made in one line each."""

from tests.unit.broker.queues.world import RecordingOwner
from warren.broker.model.message import Envelope, Message
from warren.broker.model.ports import QueuePort
from warren.broker.model.turn import Turn
from warren.broker.queues.queue import Queue
from warren.broker.queues.settings import DEFAULT_SETTINGS
from warren.broker.routing.exchanges import Binding, Exchange
from warren.broker.routing.topology import Topology, TopologyRemoval
from warren.wire.field_tables import Table
from warren.wire.properties import Properties, encode_header_payload


def take_away(topology: Topology, removal: TopologyRemoval) -> None:
    """Apply a removal, in its order."""
    for thing in removal.gone:
        if isinstance(thing, Binding):
            topology.unbind(thing)
        elif isinstance(thing, Exchange):
            topology.remove_exchange(thing)
        else:
            topology.remove_queue(thing)


def unbind(topology: Topology, source: Exchange, destination: QueuePort | Exchange, key: str, arguments: Table) -> None:
    """Remove an existing binding, and nothing else."""
    binding = topology.binding(source, destination, key, arguments)
    assert binding is not None
    topology.unbind(binding)


def a_queue(name: str) -> QueuePort:
    return Queue("/", name, False, False, False, {}, 0, DEFAULT_SETTINGS, Turn(), RecordingOwner())


def a_copy(name: str, arguments: Table, exclusive: bool = False) -> QueuePort:
    """A queue with an `x-copy-from` argument."""
    return Queue(
        "/", name, False, exclusive, False, arguments, int(exclusive), DEFAULT_SETTINGS, Turn(), RecordingOwner()
    )


def queues_in(topology: Topology, *names: str) -> list[QueuePort]:
    queues = [a_queue(name) for name in names]
    for queue in queues:
        topology.add_queue(queue)
    return queues


def a_message(headers: Table | None = None, **properties: object) -> Message:
    known = Properties(headers=headers)
    for name, value in properties.items():
        setattr(known, name, value)
    payload = encode_header_payload(known, 0)
    content = b"\x02\x00\x01" + len(payload).to_bytes(4, "big") + payload + b"\xce"
    return Message(Envelope("x", "k"), content, 1, 0, len(content))


def an_exchange(topology: Topology, name: str, type: str, auto_delete: bool = False, **arguments: object) -> Exchange:
    """An exchange; its arguments are given with underscores for dashes."""
    table: Table = {key.replace("_", "-"): value for key, value in arguments.items()}
    return topology.declare_exchange(name, type, False, auto_delete, False, table)


def reached(topology: Topology, exchange: Exchange, key: str, message: Message | None = None) -> list[str]:
    """The names of the queues in the route of a message."""
    return [queue.name for queue in topology.route(exchange, key, message).queues]
