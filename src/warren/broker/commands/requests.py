"""Commands about what clients make and about clients themselves.

What is made by command is made by the node: nobody's permissions are asked, and what is there already stays as it is,
even if it is different.

Not here: what becomes of them (`broker.orders`), making things as a user, which is done by AMQP (`admin`).

What an operator may ask about users, permissions, virtual hosts and limits.

A password comes as its hash: computing one takes longer than a turn may.

Not here: how they are carried out (`broker.access`), how a password is hashed (`broker.access.passwords`).

The commands that change policies and parameters.

Not here: what becomes of them (`broker.policy_commands`), making a policy of values from outside
(`broker.policies.validation.policy_of`).
"""

from typing import final

from warren.broker.model.events import Command
from warren.broker.policies.parameters import Parameter
from warren.broker.policies.policies import Policy
from warren.wire.field_tables import Table


@final
class DeclareExchange(Command):
    """Make an exchange, unless there is one of that name."""

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
    """Make a queue, unless there is one of that name."""

    def __init__(self, vhost: str, name: str, durable: bool, auto_delete: bool, arguments: Table) -> None:
        self.vhost = vhost
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.arguments = arguments


@final
class DeclareBinding(Command):
    """Bind a queue or an exchange to an exchange, unless it is bound so."""

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
    """Let the mirrors of a queue whose master is here catch up."""

    def __init__(self, vhost: str, name: str) -> None:
        self.vhost = vhost
        self.name = name


@final
class CancelSync(Command):
    """Let them catch up no more, until that is asked for again."""

    def __init__(self, vhost: str, name: str) -> None:
        self.vhost = vhost
        self.name = name


@final
class RebalanceQueues(Command):
    """Spread the masters of mirrored queues evenly; answered with how many move."""


@final
class ForceCloseConnection(Command):
    """End a client's connection; the reason is told to the client."""

    def __init__(self, connection_id: int, reason: str) -> None:
        self.connection_id = connection_id
        self.reason = reason


@final
class JoinCluster(Command):
    """Keep all plans back, because definitions move to a store that nodes share; `MetadataMigrated` ends that.

    Answered with `TransientDefinitions` when everything that outlives the node is on its disk.
    """


@final
class PutUser(Command):
    """Make a user, or give one a new password and tags; its limits stay. Answered by whether it is new."""

    def __init__(self, name: str, password_hash: bytes, hashing_algorithm: str, tags: list[str]) -> None:
        self.name = name
        self.password_hash = password_hash
        self.hashing_algorithm = hashing_algorithm
        self.tags = tags


@final
class DeleteUser(Command):
    """Remove a user with all its permissions; its connections are closed."""

    def __init__(self, name: str) -> None:
        self.name = name


@final
class Authenticate(Command):
    """Find out whether this is the user's password, and whether it may come from there; `Refused` if not."""

    def __init__(self, user: str, password: str, peer_host: str) -> None:
        self.user = user
        self.password = password
        self.peer_host = peer_host


@final
class SetPermission(Command):
    """Answered by whether the user had none in that virtual host."""

    def __init__(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        self.user = user
        self.vhost = vhost
        self.configure = configure
        self.write = write
        self.read = read


@final
class ClearPermission(Command):
    """The user may not enter the virtual host any more; who is in it can do nothing there."""

    def __init__(self, user: str, vhost: str) -> None:
        self.user = user
        self.vhost = vhost


@final
class SetTopicPermission(Command):
    """Answered by whether the user had none on that exchange."""

    def __init__(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
        self.user = user
        self.vhost = vhost
        self.exchange = exchange
        self.write = write
        self.read = read


@final
class ClearTopicPermission(Command):
    """On one exchange, or on all of the virtual host's (`exchange` is None)."""

    def __init__(self, user: str, vhost: str, exchange: str | None) -> None:
        self.user = user
        self.vhost = vhost
        self.exchange = exchange


@final
class SetUserLimits(Command):
    """Limits that are not named stay as they are."""

    def __init__(self, user: str, limits: dict[str, object]) -> None:
        self.user = user
        self.limits = limits


@final
class ClearUserLimits(Command):
    """Those named, or all of them (`names` is None)."""

    def __init__(self, user: str, names: list[str] | None) -> None:
        self.user = user
        self.names = names


@final
class PutVhost(Command):
    """Make a virtual host, or describe one anew; `tracing` None leaves that as it is. Answered by whether it is new."""

    def __init__(self, name: str, description: str, tags: list[str], tracing: bool | None) -> None:
        self.name = name
        self.description = description
        self.tags = tags
        self.tracing = tracing


@final
class DeleteVhost(Command):
    """Remove a virtual host with all there is in it; its connections are closed."""

    def __init__(self, name: str) -> None:
        self.name = name


@final
class SetVhostLimits(Command):
    """Limits that are not named stay as they are."""

    def __init__(self, vhost: str, limits: dict[str, object]) -> None:
        self.vhost = vhost
        self.limits = limits


@final
class ClearVhostLimits(Command):
    """Those named, or all of them (`names` is None)."""

    def __init__(self, vhost: str, names: list[str] | None) -> None:
        self.vhost = vhost
        self.names = names


@final
class SetPolicy(Command):
    """Add a policy or operator policy, or put it in the place of the one with its name."""

    def __init__(self, policy: Policy, operator: bool) -> None:
        self.policy = policy
        self.operator = operator


@final
class ClearPolicy(Command):
    """Remove a policy or operator policy."""

    def __init__(self, vhost: str, name: str, operator: bool) -> None:
        self.vhost = vhost
        self.name = name
        self.operator = operator


@final
class SetParameter(Command):
    """Set a parameter of a component."""

    def __init__(self, vhost: str, component: str, name: str, value: object) -> None:
        self.vhost = vhost
        self.component = component
        self.name = name
        self.value = value


@final
class ClearParameter(Command):
    """Remove a parameter of a component; with `as_seen`, if it still says the same."""

    def __init__(self, vhost: str, component: str, name: str, as_seen: Parameter | None = None) -> None:
        self.vhost = vhost
        self.component = component
        self.name = name
        self.as_seen = as_seen


@final
class SetGlobalParameter(Command):
    """Set a parameter of the whole cluster."""

    def __init__(self, name: str, value: object) -> None:
        self.name = name
        self.value = value


@final
class ClearGlobalParameter(Command):
    """Remove a parameter of the whole cluster."""

    def __init__(self, name: str) -> None:
        self.name = name
