"""The interface of a node for the bridges that run on it.

All answers come at once from memory, except connecting and forgetting. `on_change` reports that some answer may have
changed, without saying which; listeners ask again.

Not here: the implementation (`node.bridge_host`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from warren.broker.policies.parameters import Parameter
from warren.client.connection import Connection
from warren.wire.field_tables import Table


class BridgeLog(Protocol):
    """One line per event: noun.verb in the past, and facts as fields."""

    def info(self, event: str, **fields: object) -> None: ...

    def warning(self, event: str, **fields: object) -> None: ...

    def error(self, event: str, **fields: object) -> None: ...


@dataclass(frozen=True)
class FederatedObject:
    """An exchange or a queue whose effective policy names upstreams, and the arguments to declare it with."""

    kind: Literal["exchange", "queue"]
    vhost: str
    name: str
    policy_name: str
    policy: Table
    """The effective definition; it has federation-upstream, federation-upstream-set or federation-upstream-pattern."""
    home: str = ""
    """Of a queue: its node; empty while that node is unknown."""
    type: str = ""
    """Of an exchange only."""
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
        """All parameters of a component, in all virtual hosts."""

    def global_parameter(self, name: str) -> object:
        """None if there is no parameter of that name."""

    def federated(self) -> list[FederatedObject]:
        """The exchanges and queues that have upstreams."""

    def bindings_of(self, vhost: str, exchange: str) -> list[LocalBinding]:
        """The outgoing bindings of an exchange; none if there is no such exchange."""

    def wants_more(self, vhost: str, queue: str) -> bool:
        """Whether a consumer of the queue, other than a federation link, could take another message at once."""

    def responsible_for(self, key: str) -> bool:
        """Whether this node is the one among the running nodes that runs the bridge with that key."""

    def has_user(self, name: str) -> bool: ...

    def is_administrator(self, user: str) -> bool: ...

    async def connect_here(self, vhost: str, name: str, user: str) -> Connection:
        """A connection to this broker itself, as that user.

        Without a user it has full rights in that virtual host, and may publish with any user id.
        """

    async def forget(self, parameter: Parameter) -> None:
        """Clear a parameter, if it is there and has not changed."""

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` soon, once for many changes, when any answer may have changed; returns the function that
        stops it.

        The callback runs in the event loop, never inside another call of this interface.
        """
