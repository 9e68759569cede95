"""What a bridge asks of the node it runs on.

Everything is answered at once from what the node has in memory, but for connecting and forgetting. A change of any of
it is told (`on_change`), without saying which: whoever listens looks again, and finds most of the time that nothing
concerns him.

Not here: who answers (`node.bridging`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from warren.broker.policies.parameters import Parameter
from warren.client.connection import Connection
from warren.wire.field_tables import Table


class BridgeLog(Protocol):
    """One line for each event: noun.verb in the past, and facts as fields."""

    def info(self, event: str, **fields: object) -> None: ...

    def warning(self, event: str, **fields: object) -> None: ...

    def error(self, event: str, **fields: object) -> None: ...


@dataclass(frozen=True)
class FederatedObject:
    """An exchange or a queue whose effective policy names upstreams, and what it would be declared with again."""

    kind: Literal["exchange", "queue"]
    vhost: str
    name: str
    policy_name: str
    policy: Table
    """The definition in force; has one of federation-upstream, federation-upstream-set, federation-upstream-pattern."""
    home: str = ""
    """Of a queue, the node it is on; empty while nobody reaches it."""
    type: str = ""
    """Of an exchange."""
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class LocalBinding:
    """A binding of an exchange of this broker."""

    routing_key: str
    arguments: Table
    to_exchange: bool
    destination: str


class BridgeHost(Protocol):
    """A node, for the bridges that run on it."""

    @property
    def node_name(self) -> str: ...

    @property
    def cluster_name(self) -> str: ...

    @property
    def log(self) -> BridgeLog: ...

    def parameters(self, component: str) -> list[Parameter]:
        """All of a component, of all virtual hosts."""

    def global_parameter(self, name: str) -> object:
        """None if there is none of that name."""

    def federated(self) -> list[FederatedObject]:
        """The exchanges and queues that have upstreams."""

    def bindings_of(self, vhost: str, exchange: str) -> list[LocalBinding]:
        """Those that lead away from an exchange; none if there is no such exchange."""

    def wants_more(self, vhost: str, queue: str) -> bool:
        """Whether a message that came to that queue would go to a consumer of its own (not to another federation)."""

    def responsible_for(self, key: str) -> bool:
        """Whether, of the running nodes, this one is to run the bridge with that key."""

    async def connect_here(self, vhost: str, name: str, user: str) -> Connection:
        """A connection to this broker itself.

        Without a user it may do everything in that virtual host, and publish with any user id.
        """

    async def forget(self, parameter: Parameter) -> None:
        """Clear a parameter, if it is there and still says the same."""

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called, soon and once for many, when any answer may be another one; returns how to stop it.

        It is called from the event loop, never while something else is asked.
        """
