"""The nodes of a cluster as metadata.

    nodes/warren%40one      v, kind, peer, http, amqp, store, witness if it is one
    runs/warren%40one       v, run, born, data
    alive/warren%40one      v, incarnation

A node is a member from when it joined until it is forgotten, whether it runs or not. It is alive while it holds a lease
of the store that nodes share: the last key goes by itself when the node has not been heard of for long enough.

The runs of a name are counted for good, whoever has it: the key stays when the node is forgotten. So no two runs are
ever taken for one, and a node that comes with another data directory than before, or with an old state of it, is known
to have nothing of what its name was trusted with.

Not here: keys and values in general (`broker.metadata.store`), who is in the cluster (`broker.membership`), what goes
with a node (`broker.pending_deletes`).
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
class IncarnationDefinition(Definition):
    """The latest run of any node of that name, the first one with the same data directory, and which that is.

    `born` is 0 if it is the first directory that a node of the name had.
    """

    def __init__(self, name: str, run: int, born: int, data: int) -> None:
        self.name: str = name
        self.run: int = run
        self.born: int = born
        self.data: int = data

    def key(self) -> str:
        return incarnation_key(self.name)

    def value(self) -> bytes:
        return encode_fields({"run": self.run, "born": self.born, "data": self.data})

    def followed_by(self, run: int, data: int, asked: int) -> "IncarnationDefinition":
        """The node begins another run, which its directory counts as this one; it last `asked` for that one.

        A directory that has not asked for the latest run is an old state of itself: a backup that was put back, however
        often it was started since. One that was made during the latest run cannot be told from what it is a copy of.
        """
        number = max(run, self.run + 1)
        goes_on = self.data == data and asked >= self.run
        return IncarnationDefinition(self.name, number, self.born if goes_on else number, data)

    def without_past(self) -> bool:
        """Whether it is the first with its directory, or with an old state of that, and the name was had before."""
        return self.run == self.born


@final
class LivenessDefinition(Definition):
    """A member that runs, and which run of its process that is."""

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
