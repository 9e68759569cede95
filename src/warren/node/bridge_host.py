"""The node as its bridges see it.

**Which node runs a bridge.** Each live node that holds queues takes the bridges whose key it wins by a rendezvous hash.
All nodes compute the same result without messages, and when a node goes, only its own bridges move. A paused node runs
none.

**Changes.** Broker state changes only in turns. After a turn, marks are compared with their previous values: the
version of all definitions, the version of the members, and, for federated queues that bridges asked about, whether they
want more messages. A node without federated queues pays next to nothing, and nothing polls. Listeners are called in a
step of the loop of their own, at most every `EVERY_S`, so thousands of declarations are one change.

**Connections in the process.** A bridge connects to its own broker without a socket:

::

    client.link.Link ──write──► InProcessConnection ──BytesReceived──► broker
          ▲                                                             │
          └────── data_received ── InProcessTransport ◄── SendBytes ────┘

The broker's bytes reach the client in the loop's next step, never inside the turn: an error of the client must not look
like an error of the broker. Each side's flow control is passed on to the other.

**Stopping.** The bridges stop before the node does, while the broker still answers. So they close both ends in good
order, and nothing is transferred twice.

Not here: which bridges there are (`warren.bridges.admin`), AMQP for HTTP users (`admin.direct_link`).
"""

import asyncio
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any, Final

import warren
from warren.admin.background import BackgroundTasks
from warren.admin.command_queue import CommandQueue
from warren.bridges.admin import BridgesAdmin, bridge_components, bridge_kinds
from warren.bridges.host import FederatedObject, LocalBinding
from warren.bridges.supervisor import BridgeSupervisor
from warren.broker.access.users import ADMINISTRATOR
from warren.broker.broker import Broker
from warren.broker.commands.requests import ClearParameter
from warren.broker.links.mirrored_queue_proxy import MirroredQueueProxy
from warren.broker.links.remote_queue import RemoteQueue
from warren.broker.metadata.policy_definitions import is_sealed
from warren.broker.model.events import BytesReceived, ConnectionDropped, ConnectionOpened, WritesPaused, WritesResumed
from warren.broker.model.ports import QueuePort
from warren.broker.policies.keys import FEDERATION_KEYS
from warren.broker.policies.parameters import Parameter
from warren.broker.routing.exchanges import Exchange
from warren.broker.vhost import Vhost
from warren.client.connection import CALL_TIMEOUT_S, Connection
from warren.client.errors import CannotConnect
from warren.client.machine.settings import EXTERNAL, ClientSettings
from warren.client.protocol import ClientProtocol
from warren.client.uri import BrokerAddress
from warren.errors import CommandRefused
from warren.node.logs import Log
from warren.node.turn_loop import TurnLoop
from warren.wire.field_tables import Table

NOTIFY_EVERY_S: Final = 0.05
StateVersion = tuple[int, int, bool]


class ChangeNotifier:
    """Reports changes of one broker."""

    def __init__(self, core: Broker, turns: TurnLoop, wants_more: Callable[[str, str], bool]) -> None:
        self._core = core
        self._loop = turns.loop
        self._wants_more = wants_more
        # by virtual host and queue: the last answer to `wants_more`
        self._wants: dict[tuple[str, str], bool] = {}
        self._mark = self._look()
        self._listeners: list[Callable[[], None]] = []
        self._due: asyncio.TimerHandle | None = None
        self._notified_at = 0.0
        turns.after_turn = self._after_turn

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback) if callback in self._listeners else None

    def record_answer(self, vhost: str, queue: str, wish: bool) -> None:
        """A bridge relies on this answer until it is told of a change."""
        self._wants[vhost, queue] = wish

    def _after_turn(self) -> None:
        mark = self._look()
        if mark != self._mark:
            self._mark = mark
            # listeners ask again
            self._wants.clear()
            self._schedule_notification()
        elif self._wants and any(self._wants_more(*queue) != wish for queue, wish in self._wants.items()):
            self._schedule_notification()

    def _look(self) -> StateVersion:
        cluster = self._core.cluster
        if cluster is None:
            return (self._core.appliers.version, -1, False)
        membership = cluster.membership
        return (self._core.appliers.version, membership.members.version, membership.paused)

    def _schedule_notification(self) -> None:
        if self._due is None and self._listeners:
            wait_s = max(self._notified_at + NOTIFY_EVERY_S - self._loop.time(), 0.0)
            self._due = self._loop.call_later(wait_s, self._notify_listeners)

    def _notify_listeners(self) -> None:
        self._due = None
        self._notified_at = self._loop.time()
        for listener in list(self._listeners):
            listener()


OPENED_WITHIN_S = 10.0


async def connect_in_process(
    turns: TurnLoop, connection_id: int, node_name: str, vhost: str, name: str, user: str
) -> Connection:
    """Connect as that user without further authentication; without a user, as the node itself with full rights."""
    properties: Table = {"product": "Warren", "version": warren.__version__, "platform": "Python"}
    if name:
        properties["connection_name"] = name
    settings = ClientSettings(user, "", vhost, EXTERNAL, 0, 0, 0, properties)
    link = ClientProtocol(settings, CALL_TIMEOUT_S)
    inner = InProcessConnection(turns, connection_id, link)
    inner.open(user)
    try:
        async with asyncio.timeout(OPENED_WITHIN_S):
            return Connection(link, await link.opened, BrokerAddress(node_name, 0))
    except TimeoutError:
        inner.abort()
        raise CannotConnect([(node_name, f"no answer within {OPENED_WITHIN_S:g} s")]) from None
    except BaseException:
        inner.abort()
        raise


class InProcessConnection:
    """The broker's side of a connection."""

    def __init__(self, turns: TurnLoop, connection_id: int, client: ClientProtocol) -> None:
        self._turns = turns
        self.connection_id = connection_id
        self._client = client
        self.closing = False
        # the turns write to a connection's transport
        self.transport = self

    def open(self, user: str) -> None:
        self._turns.links[self.connection_id] = self
        opened = ConnectionOpened(self.connection_id, "127.0.0.1", 0, "127.0.0.1", 0, direct=True, trusted_user=user)
        self._turns.add(opened)
        self._client.connection_made(InProcessTransport(self, self._turns))

    def write(self, data: bytes) -> None:
        if not self.closing:
            self._turns.loop.call_soon(self._client.data_received, data)

    def pause_reading(self) -> None:
        """The broker takes no more input for the moment."""
        self._turns.loop.call_soon(self._client.pause_writing)

    def resume_reading(self) -> None:
        self._turns.loop.call_soon(self._client.resume_writing)

    def close(self) -> None:
        """Closed by either side: earlier bytes are still delivered."""
        if not self.closing:
            self.closing = True
            self._turns.forget(self.connection_id, self)
            self._turns.add(ConnectionDropped(self.connection_id, ""))
            self._turns.loop.call_soon(self._client.connection_lost, None)

    def abort(self) -> None:
        self.close()


class InProcessTransport(asyncio.Transport):
    """The client's side of the connection."""

    def __init__(self, link: InProcessConnection, turns: TurnLoop) -> None:
        super().__init__()
        self._link = link
        self._turns = turns
        self._reading = True

    def write(self, data: Any) -> None:
        if not self._link.closing:
            self._turns.add(BytesReceived(self._link.connection_id, bytes(data)))

    def is_closing(self) -> bool:
        return self._link.closing

    def close(self) -> None:
        self._link.close()

    def abort(self) -> None:
        self._link.close()

    def pause_reading(self) -> None:
        """The client takes no more input for the moment."""
        if self._reading and not self._link.closing:
            self._reading = False
            self._turns.add(WritesPaused(self._link.connection_id))

    def resume_reading(self) -> None:
        if not self._reading and not self._link.closing:
            self._reading = True
            self._turns.add(WritesResumed(self._link.connection_id))

    def is_reading(self) -> bool:
        return self._reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered here."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


class NodeBridgeHost:
    """Implements `warren.bridges.host.BridgeHost` for one node."""

    def __init__(
        self, core: Broker, turns: TurnLoop, command_queue: CommandQueue, log: Log, next_id: Callable[[], int]
    ) -> None:
        self.node_name = core.settings.node_name
        self.log = log
        self._core = core
        self._turns = turns
        self._command_queue = command_queue
        self._next_id = next_id
        self._changes = ChangeNotifier(core, turns, self._wants_more)

    @property
    def cluster_name(self) -> str:
        return self._core.cluster_name()

    # -- definitions

    def parameters(self, component: str) -> list[Parameter]:
        return [
            each
            for each in self._core.policies.parameters.values()
            if each.component == component and not is_sealed(each.value)
        ]

    def undecrypted_parameters(self) -> list[str]:
        """The names of parameters that were encrypted with another cookie."""
        return [
            f"{each.component} {each.name} in {each.vhost}"
            for each in self._core.policies.parameters.values()
            if is_sealed(each.value)
        ]

    def global_parameter(self, name: str) -> object:
        return self._core.policies.global_parameters.get(name)

    def federated(self) -> list[FederatedObject]:
        federating = {
            policy.vhost for policy in self._core.policies.policies.values() if _names_upstreams(policy.definition)
        }
        hosts = [vhost for name, vhost in self._core.vhosts.items() if name in federating]
        return [each for vhost in hosts for each in [*_federated_exchanges(vhost), *self._federated_queues(vhost)]]

    def bindings_of(self, vhost: str, exchange: str) -> list[LocalBinding]:
        host = self._core.vhosts.get(vhost)
        source = None if host is None else host.topology.exchanges.get(exchange)
        if source is None:
            return []
        return [
            LocalBinding(
                binding.routing_key,
                binding.arguments,
                isinstance(binding.destination, Exchange),
                binding.destination.name,
            )
            for binding in source.outgoing.values()
        ]

    async def forget(self, parameter: Parameter) -> None:
        where = (parameter.vhost, parameter.component, parameter.name)
        try:
            await self._command_queue.carry_out(ClearParameter(*where, as_seen=parameter))
        except CommandRefused as refusal:
            if refusal.kind != "not_found":
                raise

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._changes.listen(callback)

    # -- queues

    def wants_more(self, vhost: str, queue: str) -> bool:
        wish = self._wants_more(vhost, queue)
        self._changes.record_answer(vhost, queue, wish)
        return wish

    def _wants_more(self, vhost: str, queue: str) -> bool:
        host = self._core.vhosts.get(vhost)
        own = None if host is None else host.own_queue(queue)
        if own is None or own.ready_count():
            return False
        # federation links consume with a negative priority: two of them must not pass a message back and forth
        return any(active and consumer.priority >= 0 and consumer.able() for consumer, active in own.consumers())

    def _federated_queues(self, vhost: Vhost) -> Iterator[FederatedObject]:
        for queue in vhost.topology.queues.values():
            effective = self._core.policies.for_queue(vhost.name, queue.name)
            if _names_upstreams(effective.definition):
                yield FederatedObject(
                    "queue",
                    vhost.name,
                    queue.name,
                    effective.policy,
                    effective.definition,
                    home=self._home_of(queue),
                    durable=queue.durable,
                    auto_delete=queue.auto_delete,
                    arguments=queue.arguments,
                )

    def _home_of(self, queue: QueuePort) -> str:
        return queue.node if isinstance(queue, RemoteQueue | MirroredQueueProxy) else self.node_name

    # -- the cluster

    def responsible_for(self, key: str) -> bool:
        cluster = self._core.cluster
        if cluster is None:
            return True
        membership = cluster.membership
        members = membership.members
        able = [name for name in members.alive_names() if not members.is_witness(name)]
        if membership.paused or self.node_name not in able:
            return False
        return max(able, key=lambda name: (rendezvous_weight(key, name), name)) == self.node_name

    # -- users

    def has_user(self, name: str) -> bool:
        return name in self._core.access.users

    def is_administrator(self, user: str) -> bool:
        found = self._core.access.users.get(user)
        return found is not None and ADMINISTRATOR in found.tags

    async def connect_here(self, vhost: str, name: str, user: str) -> Connection:
        return await connect_in_process(self._turns, self._next_id(), self.node_name, vhost, name, user)


def rendezvous_weight(key: str, node: str) -> bytes:
    """A pseudorandom weight of a node for a key, the same on every node."""
    return blake2b(f"{node}\0{key}".encode("utf-8", "surrogateescape"), digest_size=8).digest()


def _federated_exchanges(vhost: Vhost) -> Iterator[FederatedObject]:
    for exchange in vhost.topology.exchanges.values():
        if _names_upstreams(exchange.effective_policy):
            yield FederatedObject(
                "exchange",
                vhost.name,
                exchange.name,
                exchange.policy,
                exchange.effective_policy,
                type=exchange.type,
                durable=exchange.durable,
                auto_delete=exchange.auto_delete,
                internal=exchange.internal,
                arguments=exchange.arguments,
            )


def _names_upstreams(definition: Table) -> bool:
    return any(key in definition for key in FEDERATION_KEYS)


CONFIRMS_PATIENCE_S = 2.0
"""How long bridges wait for confirms when the node stops; they need the rest of its time to close their ends."""

STOP_PATIENCE_S = 3.0


class NodeBridges:
    """The bridges of one node, in one run."""

    def __init__(
        self,
        core: Broker,
        turns: TurnLoop,
        command_queue: CommandQueue,
        log: Log,
        next_id: Callable[[], int],
        tasks: BackgroundTasks,
    ) -> None:
        core.parameters.components.update(bridge_components())
        self.host = NodeBridgeHost(core, turns, command_queue, log, next_id)
        self.supervisor = BridgeSupervisor(self.host, bridge_kinds())
        self.admin = BridgesAdmin(self.host, self.supervisor)
        self._tasks = tasks

    def start(self) -> None:
        undecrypted = self.host.undecrypted_parameters()
        if undecrypted:
            self.host.log.warning(
                "parameters.undecrypted",
                names=", ".join(undecrypted),
                effect="they have no effect; put the cookie back that they were set with, or set them again",
            )
        self.supervisor.start(lambda work: self._tasks.start("bridges", work))

    def stop_before(self, go_on: Callable[[], None]) -> None:
        """Stop the bridges, and call `go_on` when they have stopped or took too long; at once if there are none."""
        if self.supervisor.is_idle:
            self.supervisor.cancel()
            go_on()
            return
        self._stopping = asyncio.ensure_future(self._stop(go_on))

    async def _stop(self, go_on: Callable[[], None]) -> None:
        try:
            async with asyncio.timeout(STOP_PATIENCE_S):
                await self.supervisor.stop(CONFIRMS_PATIENCE_S)
        except TimeoutError:
            self.host.log.warning("bridges.abandoned", waited_s=STOP_PATIENCE_S)
        finally:
            go_on()
