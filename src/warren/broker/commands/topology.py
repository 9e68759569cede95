"""Commands that declare exchanges, queues and bindings, as an import of definitions does.

Arguments are validated as a client's are, and refused in the same words. A binding may refer to objects of earlier
commands.

Not here: reading definitions (`admin`), declares of clients (`broker.sessions.declares`).
"""

from typing import Final, final

from warren.broker.access.limits import MAX_QUEUES, UNLIMITED, limit_of
from warren.broker.commands.control import CommandHandler, ProposedNames
from warren.broker.commands.policies import check_vhost
from warren.broker.commands.requests import DeclareBinding, DeclareExchange, DeclareQueue
from warren.broker.metadata.topology_definitions import (
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
    exchange_key,
    queue_key,
)
from warren.broker.metadata.transaction import MetadataTransaction
from warren.broker.model.events import Command
from warren.broker.model.ports import QueuePort
from warren.broker.model.stream_partitions import PARTITION_OF, check_partition_names, partition_names
from warren.broker.queues.arguments import validate_declaration, without_aliases
from warren.broker.routing.exchange_types import alternate_of, matcher_for, validate_exchange_type
from warren.broker.routing.exchanges import Exchange, Matcher
from warren.broker.routing.topology import PREDECLARED, PREDECLARED_NAMES
from warren.broker.routing.topology_transactions import (
    add_binding_definition,
    add_exchange_definition,
    add_queue_definition,
    with_partitions,
)
from warren.broker.vhost import Vhost
from warren.errors import CommandRefused, InvariantBroken, ProtocolFault
from warren.wire.field_tables import Table

NAME_OCTETS_MAX: Final = 255


@final
class TopologyCommands(CommandHandler):
    """Commands that declare exchanges, queues and bindings."""

    def __init__(self, vhosts: dict[str, Vhost]) -> None:
        self._vhosts: dict[str, Vhost] = vhosts

    def kinds(self) -> list[type[Command]]:
        return [DeclareExchange, DeclareQueue, DeclareBinding]

    # -- checks

    def check(self, command: Command, proposed: ProposedNames) -> None:
        try:
            if isinstance(command, DeclareExchange):
                self._check_exchange(command, proposed)
            elif isinstance(command, DeclareQueue):
                self._check_queue(command, proposed)
            elif isinstance(command, DeclareBinding):
                self._check_binding(command, proposed)
        except ProtocolFault as fault:
            raise CommandRefused("bad_request", fault.text) from fault

    def _check_exchange(self, command: DeclareExchange, proposed: ProposedNames) -> None:
        check_vhost(command.vhost, self._vhosts, proposed)
        if self._matcher(command.vhost, command.name, proposed) is not None:
            return
        _check_length("exchange name", command.name)
        validate_exchange_type(command.type)
        alternate_of(command.vhost, command.name, command.arguments)
        proposed.exchanges[command.vhost, command.name] = matcher_for(command.type, command.arguments)

    def _check_queue(self, command: DeclareQueue, proposed: ProposedNames) -> None:
        check_vhost(command.vhost, self._vhosts, proposed)
        if self._has_queue(command.vhost, command.name, proposed):
            return
        if not command.name:
            raise CommandRefused("bad_request", "queue name must not be empty")
        _check_length("queue name", command.name)
        arguments = without_aliases(command.name, command.vhost, command.arguments)
        # a client may not declare a partition, but exported definitions have them
        own: Table = {name: arguments[name] for name in arguments if name != PARTITION_OF}
        validate_declaration(command.name, command.vhost, command.durable, False, command.auto_delete, own)
        self._check_room(command, proposed)
        proposed.queues[command.vhost, command.name] = None
        self._check_partitions(command, arguments, proposed)

    def _check_partitions(self, command: DeclareQueue, arguments: Table, proposed: ProposedNames) -> None:
        """A partitioned stream is declared with its partitions, whether the batch has them or not."""
        vhost = self._vhosts.get(command.vhost)
        queues: dict[str, QueuePort] = {} if vhost is None else vhost.topology.queues
        check_partition_names(command.name, command.vhost, arguments, queues)
        for name in partition_names(command.name, arguments):
            if name not in queues:
                proposed.queues[command.vhost, name] = None

    def _check_room(self, command: DeclareQueue, proposed: ProposedNames) -> None:
        vhost = self._vhosts.get(command.vhost)
        limit = UNLIMITED if vhost is None else limit_of(vhost.limits, MAX_QUEUES)
        if vhost is None or limit == UNLIMITED or len(vhost.topology.queues) + len(proposed.queues) < limit:
            return
        count = len(vhost.topology.queues) + len([name for place, name in proposed.queues if place == vhost.name])
        if count >= limit:
            reached = f"queue limit in vhost '{vhost.name}' ({limit}) is reached"
            raise CommandRefused("bad_request", f"cannot declare queue '{command.name}': {reached}")

    def _check_binding(self, command: DeclareBinding, proposed: ProposedNames) -> None:
        vhost = command.vhost
        check_vhost(vhost, self._vhosts, proposed)
        _check_length("routing key", command.routing_key)
        if command.destination_is_queue:
            if not self._has_queue(vhost, command.destination, proposed):
                raise CommandRefused("bad_request", f"no queue '{command.destination}' in vhost '{vhost}'")
        elif self._matcher(vhost, command.destination, proposed) is None:
            raise CommandRefused("bad_request", f"no exchange '{command.destination}' in vhost '{vhost}'")
        if _is_implied(command):
            return
        source = self._matcher(vhost, command.source, proposed)
        if source is None:
            raise CommandRefused("bad_request", f"no exchange '{command.source}' in vhost '{vhost}'")
        if not command.source or not (command.destination or command.destination_is_queue):
            raise CommandRefused("bad_request", "operation not permitted on the default exchange")
        source.check(command.routing_key, command.arguments)

    def _matcher(self, vhost: str, name: str, proposed: ProposedNames) -> Matcher | None:
        """The matcher of an exchange that exists or is proposed."""
        found = self._vhosts.get(vhost)
        if found is not None:
            exchange = found.topology.exchanges.get(name)
            if exchange is not None:
                return exchange.matcher
        else:
            for predeclared, type, _ in PREDECLARED:
                if predeclared == name:
                    return matcher_for(type, {})
        return proposed.exchanges.get((vhost, name))

    def _has_queue(self, vhost: str, name: str, proposed: ProposedNames) -> bool:
        found = self._vhosts.get(vhost)
        return (found is not None and name in found.topology.queues) or (vhost, name) in proposed.queues

    # -- transactions

    def add_changes(self, command: Command, transaction: MetadataTransaction) -> object:
        if isinstance(command, DeclareExchange):
            self._add_exchange(command, transaction)
        elif isinstance(command, DeclareQueue):
            self._add_queue(command, transaction)
        elif isinstance(command, DeclareBinding):
            self._add_binding(command, transaction)
        else:
            raise InvariantBroken(f"{type(command).__name__} is not about exchanges, queues or bindings")
        return None

    def _add_exchange(self, command: DeclareExchange, transaction: MetadataTransaction) -> None:
        if self._exchange_is_durable(transaction, command.vhost, command.name) is None:
            add_exchange_definition(
                transaction,
                ExchangeDefinition(
                    command.vhost,
                    command.name,
                    command.type,
                    command.durable,
                    command.auto_delete,
                    command.internal,
                    command.arguments,
                ),
            )

    def _add_queue(self, command: DeclareQueue, transaction: MetadataTransaction) -> None:
        vhost, name = command.vhost, command.name
        if self._queue_is_durable(transaction, vhost, name) is None:
            arguments = without_aliases(name, vhost, command.arguments)
            wanted = QueueDefinition(vhost, name, command.durable, False, command.auto_delete, arguments)
            found = self._vhosts.get(vhost)
            for queue in with_partitions(wanted, {} if found is None else found.topology.queues):
                add_queue_definition(transaction, queue)

    def _add_binding(self, command: DeclareBinding, transaction: MetadataTransaction) -> None:
        if _is_implied(command) or self._is_bound(command):
            return
        durable = self._exchange_is_durable(transaction, command.vhost, command.source) is True
        if command.destination_is_queue:
            durable = durable and self._queue_is_durable(transaction, command.vhost, command.destination) is True
        else:
            durable = durable and self._exchange_is_durable(transaction, command.vhost, command.destination) is True
        add_binding_definition(
            transaction,
            BindingDefinition(
                command.vhost,
                command.source,
                command.destination,
                command.destination_is_queue,
                command.routing_key,
                command.arguments,
                durable,
            ),
        )

    def _exchange_is_durable(self, transaction: MetadataTransaction, vhost: str, name: str) -> bool | None:
        """Whether an existing or proposed exchange is durable; None if there is none."""
        proposed = transaction.change_of(exchange_key(vhost, name))
        if proposed is not None:
            return None if proposed.definition is None else proposed.kept
        if name in PREDECLARED_NAMES:
            return True
        found = self._vhosts.get(vhost)
        exchange = None if found is None else found.topology.exchanges.get(name)
        return None if exchange is None else exchange.durable

    def _queue_is_durable(self, transaction: MetadataTransaction, vhost: str, name: str) -> bool | None:
        proposed = transaction.change_of(queue_key(vhost, name))
        if proposed is not None:
            return None if proposed.definition is None else proposed.kept
        found = self._vhosts.get(vhost)
        queue = None if found is None else found.topology.queues.get(name)
        return None if queue is None else queue.durable

    def _is_bound(self, command: DeclareBinding) -> bool:
        found = self._vhosts.get(command.vhost)
        if found is None:
            return False
        topology = found.topology
        source = topology.exchanges.get(command.source)
        destination: QueuePort | Exchange | None = topology.exchanges.get(command.destination)
        if command.destination_is_queue:
            destination = topology.queues.get(command.destination)
        if source is None or destination is None:
            return False
        return topology.binding(source, destination, command.routing_key, command.arguments) is not None


def _is_implied(command: DeclareBinding) -> bool:
    """Whether every queue has this binding: that to the default exchange."""
    return command.destination_is_queue and not command.source and command.routing_key == command.destination


def _check_length(what: str, text: str) -> None:
    if len(text.encode("utf-8", "surrogateescape")) > NAME_OCTETS_MAX:
        raise CommandRefused("bad_request", f"{what} is longer than {NAME_OCTETS_MAX} bytes: {text[:32]}...")
