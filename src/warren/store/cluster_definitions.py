"""The nodes of a cluster as metadata.

    nodes/warren%40one      v, kind, peer, http, amqp, store, witness if it is one
    alive/warren%40one      v, incarnation

A node is a member from when it joined until it is forgotten, whether it runs or not. It is alive while it holds a lease
of the store that nodes share: the second key goes by itself when the node has not been heard of for long enough.

Not here: keys and values in general (`store.metadata`), who is in the cluster (`cluster.members`), what goes with a
node (`broker.departures`).
"""

from typing import Final, final

from warren.model.settings import NODE_KINDS
from warren.store.metadata import Definition, Fields, Reader, encode_fields, path
from warren.wire.values import Table

NODES: Final = "nodes"
ALIVE: Final = "alive"
WITNESS: Final = "witness"


@final
class NodeDefinition(Definition):
    """A member. `kind` says whether it keeps the metadata on its disk: "disc", or not: "ram".

    Addresses are HOST:PORT, empty where it has none: where it takes links of other nodes, operators' requests, clients,
    and questions to its part of the store. A `witness` holds no queues.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        peer: str,
        http: str = "",
        amqp: str = "",
        store: str = "",
        witness: bool = False,
    ) -> None:
        self.name: str = name
        self.kind: str = kind
        self.peer: str = peer
        self.http: str = http
        self.amqp: str = amqp
        self.store: str = store
        self.witness: bool = witness

    def key(self) -> str:
        return node_key(self.name)

    def value(self) -> bytes:
        fields: Table = {
            "kind": self.kind,
            "peer": self.peer,
            "http": self.http,
            "amqp": self.amqp,
            "store": self.store,
        }
        if self.witness:
            fields[WITNESS] = True
        return encode_fields(fields)


@final
class AliveDefinition(Definition):
    """A member that runs, and which run of its process that is."""

    def __init__(self, name: str, incarnation: int) -> None:
        self.name: str = name
        self.incarnation: int = incarnation

    def key(self) -> str:
        return alive_key(self.name)

    def value(self) -> bytes:
        return encode_fields({"incarnation": self.incarnation})

    def kept(self) -> bool:
        return False


def node_key(name: str) -> str:
    return path(NODES, [name])


def alive_key(name: str) -> str:
    return path(ALIVE, [name])


def _read_node(parts: list[str], fields: Fields) -> Definition | None:
    if len(parts) != 2 or fields.text("kind") not in NODE_KINDS:
        return None
    return NodeDefinition(
        parts[1],
        fields.text("kind"),
        fields.text("peer"),
        fields.text("http"),
        fields.text("amqp"),
        fields.text("store"),
        fields.has(WITNESS) and fields.flag(WITNESS),
    )


def _read_alive(parts: list[str], fields: Fields) -> Definition | None:
    if len(parts) != 2:
        return None
    return AliveDefinition(parts[1], fields.number("incarnation"))


CLUSTER_KINDS: Final[dict[str, Reader]] = {NODES: _read_node, ALIVE: _read_alive}
