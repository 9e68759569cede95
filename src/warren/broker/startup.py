"""Definitions at startup: those of a metadata snapshot, and the default ones of a first start.

Exchanges are loaded first, then queues, then bindings, each in the order of creation: the order of bindings decides the
order in listings and of deliveries. Everything keeps its id. Loading records nothing, except that a binding without
source or destination is deleted from the metadata, so that it cannot come back with a queue of the same name.

A node without any recorded virtual host, user or permission gets the default ones, unless definitions are about to be
imported. They are recorded, and from then on the settings that name them have no effect. A virtual host known only from
its queues, as versions without users left it, is recorded too.

Not here: messages (`broker.journal.recovery`), later definitions (`broker.appliers`), the order of loading
(`broker.storage`).
"""

import hashlib
from typing import final

from warren.broker.access.passwords import SALT_OCTETS, hash_password, password_refusal
from warren.broker.metadata.access_definitions import PermissionDefinition, UserDefinition, VhostDefinition
from warren.broker.metadata.definition_kinds import decode_definition
from warren.broker.metadata.store import Definition, MetadataChangeLog, Snapshot
from warren.broker.metadata.topology_definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from warren.broker.metadata.transaction import MetadataTransaction
from warren.broker.model.local_queue import LocalQueue
from warren.broker.model.settings import BrokerSettings
from warren.broker.routing.exchanges import Exchange
from warren.broker.vhost import Vhost
from warren.errors import ConfigError, ProtocolFault, StoreError


@final
class LoadedDefinitions:
    """Loaded objects that may have messages on disk, and the keys of dropped bindings."""

    def __init__(self) -> None:
        self.queues: dict[int, LocalQueue] = {}
        # each with its virtual host and id
        self.delaying_exchanges: list[tuple[str, int, Exchange]] = []
        self.dropped: list[str] = []


@final
class DefinitionLoader:
    """The definitions of a snapshot, oldest first; a `StoreError` if one cannot be decoded."""

    def __init__(self, snapshot: Snapshot) -> None:
        # virtual hosts of the queues, exchanges and bindings
        self.vhosts: list[str] = []
        self.others: list[Definition] = []
        self._exchanges: list[tuple[int, ExchangeDefinition]] = []
        self._queues: list[tuple[int, QueueDefinition]] = []
        self._bindings: list[BindingDefinition] = []
        for created, key in sorted([(snapshot[key][0], key) for key in snapshot]):
            self._sort_in(created, decode_definition(key, snapshot[key][1]))

    def queue_ids(self) -> list[int]:
        return [queue_id for queue_id, _definition in self._queues]

    def load(self, vhosts: dict[str, Vhost], metadata: MetadataChangeLog | None) -> LoadedDefinitions:
        """Make all queues, exchanges and bindings in these virtual hosts, which are empty.

        `metadata` is None if the metadata is shared with other nodes: a node deletes nothing from that here.
        """
        loaded = LoadedDefinitions()
        for exchange_id, exchange in self._exchanges:
            _load_exchange(vhosts[exchange.vhost], exchange_id, exchange, loaded)
        for queue_id, queue in self._queues:
            made = vhosts[queue.vhost].make_queue(queue, queue_id)
            if made is not None and queue.durable:
                loaded.queues[queue_id] = made
        for binding in self._bindings:
            if not _load_binding(vhosts[binding.vhost], binding):
                loaded.dropped.append(binding.key())
                if metadata is not None:
                    metadata.delete(binding.key())
        return loaded

    def _sort_in(self, created: int, definition: Definition) -> None:
        if isinstance(definition, QueueDefinition):
            self._queues.append((created, definition))
            self._name_vhost(definition.vhost)
        elif isinstance(definition, ExchangeDefinition):
            self._exchanges.append((created, definition))
            self._name_vhost(definition.vhost)
        elif isinstance(definition, BindingDefinition):
            self._bindings.append(definition)
            self._name_vhost(definition.vhost)
        else:
            self.others.append(definition)

    def _name_vhost(self, name: str) -> None:
        if name not in self.vhosts:
            self.vhosts.append(name)


def _load_exchange(vhost: Vhost, exchange_id: int, definition: ExchangeDefinition, loaded: LoadedDefinitions) -> None:
    try:
        exchange = vhost.make_exchange(definition, exchange_id)
    except ProtocolFault as fault:
        raise _unusable_definition(definition.key(), fault) from fault
    if exchange.delays and exchange.exchange_id > 0:
        loaded.delaying_exchanges.append((vhost.name, exchange_id, exchange))


def _load_binding(vhost: Vhost, definition: BindingDefinition) -> bool:
    """Whether source and destination exist."""
    try:
        return vhost.bindings.make(definition)
    except ProtocolFault as fault:
        raise _unusable_definition(definition.key(), fault) from fault


def _unusable_definition(key: str, fault: ProtocolFault) -> StoreError:
    return StoreError(f"the metadata holds '{key}', which cannot be made: {fault.text}")


def add_first_access(
    transaction: MetadataTransaction,
    settings: BrokerSettings,
    seed: bytes,
    recorded: list[Definition],
    vhosts: dict[str, Vhost],
) -> None:
    """Add the definitions that are missing after loading."""
    names = [one.name for one in recorded if isinstance(one, VhostDefinition)]
    unrecorded = [name for name in vhosts if name not in names]
    others = [one for one in recorded if isinstance(one, UserDefinition | PermissionDefinition)]
    is_first = not names and not others and not settings.starts_empty
    if is_first and settings.default_vhost not in vhosts:
        unrecorded.append(settings.default_vhost)
    for name in unrecorded:
        transaction.put(VhostDefinition(name, "", [], {}))
    if is_first:
        _add_default_user(transaction, settings, seed, unrecorded)


def _add_default_user(
    transaction: MetadataTransaction, settings: BrokerSettings, seed: bytes, vhosts: list[str]
) -> None:
    salt = hashlib.blake2b(b"salt of the default user", key=seed[:64], digest_size=SALT_OCTETS).digest()
    algorithm = settings.password_hashing_module
    name = settings.default_user
    refusal = password_refusal(settings.default_pass, settings.password_rules)
    if refusal:
        raise ConfigError(f"credential_validator refuses the default_pass of the first user, {name}: {refusal}")
    password_hash = hash_password(algorithm, settings.default_pass, salt) if settings.default_pass else b""
    transaction.put(UserDefinition(name, password_hash, algorithm, list(settings.default_user_tags), {}))
    for vhost in vhosts:
        transaction.put(
            PermissionDefinition(name, vhost, settings.default_configure, settings.default_write, settings.default_read)
        )
