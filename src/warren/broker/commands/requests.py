"""The requests of operators: commands about topology, connections, users, virtual hosts, policies and parameters.

Objects declared by command are declared by the node: no permissions are checked, and an existing object stays as it is,
even if it differs. A password comes as its hash, because computing one takes too long for a turn.

Not here: their handlers (the other modules of `broker.commands`), declaring objects as a user, which is done by AMQP
(`admin`), a policy from external values (`broker.policies.validation.policy_of`).
"""

from typing import final

from warren.broker.model.events import Command
from warren.broker.model.identity import Identity
from warren.broker.policies.parameters import Parameter
from warren.broker.policies.policies import Policy
from warren.wire.field_tables import Table


@final
class DeclareExchange(Command):
    """Declare an exchange, unless it exists."""

    def __init__(
        self, vhost: str, name: str, type: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.type = type
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments


@final
class DeclareQueue(Command):
    """Declare a queue, unless it exists."""

    def __init__(self, vhost: str, name: str, durable: bool, auto_delete: bool, arguments: Table) -> None:
        self.vhost = vhost
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.arguments = arguments


@final
class DeclareBinding(Command):
    """Bind a queue or an exchange to an exchange, unless the binding exists."""

    def __init__(
        self,
        vhost: str,
        source: str,
        destination: str,
        destination_is_queue: bool,
        routing_key: str,
        arguments: Table,
    ) -> None:
        self.vhost = vhost
        self.source = source
        self.destination = destination
        self.destination_is_queue = destination_is_queue
        self.routing_key = routing_key
        self.arguments = arguments


@final
class SyncMirrors(Command):
    """Synchronise the mirrors of a queue, whose master is on this node."""

    def __init__(self, vhost: str, name: str) -> None:
        self.vhost = vhost
        self.name = name


@final
class CancelSync(Command):
    """Stop synchronising them, until it is requested again."""

    def __init__(self, vhost: str, name: str) -> None:
        self.vhost = vhost
        self.name = name


@final
class RebalanceQueues(Command):
    """Spread the masters of mirrored queues evenly; answered with the number of moves."""


@final
class ForceCloseConnection(Command):
    """Close a client's connection; the client gets the reason."""

    def __init__(self, connection_id: int, reason: str) -> None:
        self.connection_id = connection_id
        self.reason = reason


@final
class JoinCluster(Command):
    """Hold all transactions back, because definitions move to a shared store; `MetadataMigrated` ends that.

    Answered with `TransientDefinitions` when all durable definitions are on disk.
    """


@final
class PutUser(Command):
    """Add a user, or set the password and tags of one; limits stay. Answered with whether it is new."""

    def __init__(self, name: str, password_hash: bytes, hashing_algorithm: str, tags: list[str]) -> None:
        self.name = name
        self.password_hash = password_hash
        self.hashing_algorithm = hashing_algorithm
        self.tags = tags


@final
class DeleteUser(Command):
    """Delete a user with all its permissions, and close its connections."""

    def __init__(self, name: str) -> None:
        self.name = name


@final
class Authenticate(Command):
    """Check a user's password and address. Answered with an `Identity`; `CommandRefused` if they are not accepted."""

    def __init__(self, user: str, password: str, peer_host: str) -> None:
        self.user = user
        self.password = password
        self.peer_host = peer_host


@final
class ListVhostsOf(Command):
    """The virtual hosts that a client who has logged in may enter. Answered with their names, sorted."""

    def __init__(self, identity: Identity, peer_host: str) -> None:
        self.identity = identity
        self.peer_host = peer_host


@final
class SetPermission(Command):
    """Answered with whether the user had none in that virtual host."""

    def __init__(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        self.user = user
        self.vhost = vhost
        self.configure = configure
        self.write = write
        self.read = read


@final
class ClearPermission(Command):
    """The user may no longer enter the virtual host; its connections there lose their permissions."""

    def __init__(self, user: str, vhost: str) -> None:
        self.user = user
        self.vhost = vhost


@final
class SetTopicPermission(Command):
    """Answered with whether the user had none on that exchange."""

    def __init__(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
        self.user = user
        self.vhost = vhost
        self.exchange = exchange
        self.write = write
        self.read = read


@final
class ClearTopicPermission(Command):
    """On one exchange, or on all of the virtual host (`exchange` is None)."""

    def __init__(self, user: str, vhost: str, exchange: str | None) -> None:
        self.user = user
        self.vhost = vhost
        self.exchange = exchange


@final
class SetUserLimits(Command):
    """Limits that are not named stay."""

    def __init__(self, user: str, limits: dict[str, object]) -> None:
        self.user = user
        self.limits = limits


@final
class ClearUserLimits(Command):
    """Clear these limits, or all (`names` is None)."""

    def __init__(self, user: str, names: list[str] | None) -> None:
        self.user = user
        self.names = names


@final
class PutVhost(Command):
    """Add a virtual host, or change its description; `tracing` None leaves tracing. Answered with whether it is new."""

    def __init__(self, name: str, description: str, tags: list[str], tracing: bool | None) -> None:
        self.name = name
        self.description = description
        self.tags = tags
        self.tracing = tracing


@final
class EmptyVhost(Command):
    """Delete some bindings of a virtual host that is about to be deleted or, if it has none, some queues.

    The answer is how many there were. The delete of a large virtual host would take longer than a turn may.
    """

    def __init__(self, name: str) -> None:
        self.name = name


@final
class DeleteVhost(Command):
    """Delete a virtual host with everything in it, and close its connections."""

    def __init__(self, name: str) -> None:
        self.name = name


@final
class SetVhostLimits(Command):
    """Limits that are not named stay."""

    def __init__(self, vhost: str, limits: dict[str, object]) -> None:
        self.vhost = vhost
        self.limits = limits


@final
class ClearVhostLimits(Command):
    """Clear these limits, or all (`names` is None)."""

    def __init__(self, vhost: str, names: list[str] | None) -> None:
        self.vhost = vhost
        self.names = names


@final
class SetPolicy(Command):
    """Add a policy or operator policy, or replace the one with its name."""

    def __init__(self, policy: Policy, operator: bool) -> None:
        self.policy = policy
        self.operator = operator


@final
class ClearPolicy(Command):
    """Delete a policy or operator policy."""

    def __init__(self, vhost: str, name: str, operator: bool) -> None:
        self.vhost = vhost
        self.name = name
        self.operator = operator


@final
class SetParameter(Command):
    """Set a parameter of a component.

    Its definer is the user who sets it; empty: the operator of the node; None: a login without a user of this broker.
    """

    def __init__(self, vhost: str, component: str, name: str, value: object, definer: str | None = "") -> None:
        self.definer = definer
        self.vhost = vhost
        self.component = component
        self.name = name
        self.value = value


@final
class ClearParameter(Command):
    """Delete a parameter of a component; with `as_seen`, only if its value is still that one."""

    def __init__(self, vhost: str, component: str, name: str, as_seen: Parameter | None = None) -> None:
        self.vhost = vhost
        self.component = component
        self.name = name
        self.as_seen = as_seen


@final
class SetGlobalParameter(Command):
    """Set a global parameter of the cluster."""

    def __init__(self, name: str, value: object) -> None:
        self.name = name
        self.value = value


@final
class ClearGlobalParameter(Command):
    """Delete a global parameter of the cluster."""

    def __init__(self, name: str) -> None:
        self.name = name
