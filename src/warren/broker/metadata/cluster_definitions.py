"""The nodes of a cluster as metadata.

    nodes/warren%40one      v, kind, peer, http, amqp, store, witness if it is one
    runs/warren%40one       v, run, born, data
    alive/warren%40one      v, incarnation

A node is a member from its join until it is forgotten, whether it runs or not. It is alive while it holds a lease of
the shared store: the last key is deleted when the lease ends.

The incarnations of a name are counted for good: their key stays when the node is forgotten. So two incarnations never
have the same number. And a node that comes with another data directory, or with an old state of it, is known to lack
the messages that its name was trusted with.

Not here: keys and values in general (`broker.metadata.store`), the membership (`broker.membership`), the queues of a
node that is gone (`broker.cluster.orphaned_queues`).
"""

from typing import Final, final

from warren.broker.metadata.store import Definition, DefinitionFields, DefinitionReader, encode_fields, key_path
from warren.broker.model.settings import NODE_KINDS
from warren.wire.field_tables import Table

NODES: Final = "nodes"
INCARNATIONS: Final = "runs"
LIVENESS: Final = "alive"
WITNESS: Final = "witness"


@final
class NodeDefinition(Definition):
    """A member. `kind` is "disc" if the node keeps the metadata on its disk, else "ram".

    Addresses are HOST:PORT, empty if there is none: for links of other nodes, HTTP, AMQP clients, and the store. A
    `witness` holds no queues.
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
class IncarnationDefinition(Definition):
    """The latest incarnation of a name, the first one with its data directory (`born`), and the directory (`data`).

    `born` is 0 for the first directory that a node of the name had.
    """

    def __init__(self, name: str, incarnation: int, born: int, data: int) -> None:
        self.name: str = name
        self.incarnation: int = incarnation
        self.born: int = born
        self.data: int = data

    def key(self) -> str:
        return incarnation_key(self.name)

    def value(self) -> bytes:
        return encode_fields({"run": self.incarnation, "born": self.born, "data": self.data})

    def followed_by(self, incarnation: int, data: int, asked: int) -> "IncarnationDefinition":
        """The node begins another incarnation: this one by the count of its directory, which last asked for `asked`.

        A directory that has not asked for the latest incarnation is an old state: a backup that was restored. A backup
        made during the latest incarnation cannot be told from its original.
        """
        number = max(incarnation, self.incarnation + 1)
        goes_on = self.data == data and asked >= self.incarnation
        return IncarnationDefinition(self.name, number, self.born if goes_on else number, data)

    def without_past(self) -> bool:
        """Whether this is the first incarnation with a new or restored directory, and the name existed before."""
        return self.incarnation == self.born


@final
class LivenessDefinition(Definition):
    """A running member, and its incarnation."""

    def __init__(self, name: str, incarnation: int) -> None:
        self.name: str = name
        self.incarnation: int = incarnation

    def key(self) -> str:
        return liveness_key(self.name)

    def value(self) -> bytes:
        return encode_fields({"incarnation": self.incarnation})

    def kept(self) -> bool:
        return False


def node_key(name: str) -> str:
    return key_path(NODES, [name])


def incarnation_key(name: str) -> str:
    return key_path(INCARNATIONS, [name])


def liveness_key(name: str) -> str:
    return key_path(LIVENESS, [name])


def _read_node(parts: list[str], fields: DefinitionFields) -> Definition | None:
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


def _read_incarnation(parts: list[str], fields: DefinitionFields) -> Definition | None:
    if len(parts) != 2:
        return None
    return IncarnationDefinition(parts[1], fields.number("run"), fields.number("born"), fields.number("data"))


def _read_liveness(parts: list[str], fields: DefinitionFields) -> Definition | None:
    if len(parts) != 2:
        return None
    return LivenessDefinition(parts[1], fields.number("incarnation"))


CLUSTER_KINDS: Final[dict[str, DefinitionReader]] = {
    NODES: _read_node,
    INCARNATIONS: _read_incarnation,
    LIVENESS: _read_liveness,
}
