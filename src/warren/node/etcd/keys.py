"""The keys of a cluster's metadata in etcd, its revisions, and leased keys.

::

    /warren/CLUSTER/keys/KEY                     a key of the metadata, its value as it is
    /warren/CLUSTER/cluster/base                 the marker: there is a cluster; the lone node's last revision
    /warren/CLUSTER/cluster/last                 put by every commit: its modification is the last one's
    /warren/CLUSTER/cluster/created/N            which revisions created the keys that a lone node brought along
    /warren/CLUSTER/cluster/moving               a lone node is about to bring its keys along
    /warren/CLUSTER/cluster/proposals/NODE/N     what NODE proposed last, by which it learns how that ended

Etcd gives all changes of a transaction one revision. The store's revisions are so far apart that each object of a
transaction has its own number below them (`broker.metadata.store`), and begin above every revision of the lone
node whose definitions moved here. So a number is never given twice.

A leased key exists while its holder renews the lease, three times in its time to live. If etcd does not hear of the
holder for that long, the key is deleted, and put again as soon as etcd can be reached. It is also put again if another
node deleted it because it took the holder for dead: each renewal checks. A later holder of the same key takes it over:
an expiring lease deletes only keys that still hang on it, and a key with another value is not put again.

Not here: writing the keys (`node.etcd.store`), watching them (`node.etcd.watch`).
"""

import asyncio
from contextlib import suppress

import grpc
import grpc.aio

from warren.admin.background import BackgroundTasks
from warren.broker.metadata.store import IDS_PER_REVISION
from warren.errors import ConfigError
from warren.node.etcd import messages
from warren.node.etcd.connection import (
    CALL_DEADLINE_S,
    PATIENCE_S,
    EtcdConnection,
    EtcdDeclined,
    EtcdUnavailable,
    error_of_call,
)

NEVER = -1


class KeySpace:
    """The keys of one cluster."""

    def __init__(self, cluster: str) -> None:
        if not cluster or "/" in cluster:
            raise ConfigError(f"'{cluster}' cannot be the name of a cluster: it must have no slash, and not be empty")
        self.all = f"/warren/{cluster}/".encode()
        self.keys = self.all + b"keys/"
        self.base = self.all + b"cluster/base"
        self.last = self.all + b"cluster/last"
        self.moving = self.all + b"cluster/moving"
        self.created = self.all + b"cluster/created/"

    def of(self, key: str) -> bytes:
        return self.keys + key.encode("utf-8", "surrogateescape")

    def name(self, key: bytes) -> str:
        """The metadata's name of one of its keys."""
        return key[len(self.keys) :].decode("utf-8", "surrogateescape")

    def created_part(self, part: int) -> bytes:
        return self.created + b"%d" % part

    def proposal(self, node: str, slot: int) -> bytes:
        return self.all + f"cluster/proposals/{node}/{slot}".encode()


class RevisionMap:
    """Maps between etcd's revisions and the store's; the lone node's ended with `last`."""

    def __init__(self, last: int = 0) -> None:
        self._before = last // IDS_PER_REVISION + 1

    def of_store(self, etcd_revision: int) -> int:
        return (etcd_revision + self._before) * IDS_PER_REVISION

    def of_etcd(self, revision: int) -> int:
        """The last revision of etcd up to there; 0 if there is none."""
        return max(revision // IDS_PER_REVISION - self._before, 0)

    def compared(self, revision: int) -> int:
        """The revision for etcd's compare: 0 for a missing key, `NEVER` for one that matches no key."""
        if revision == 0:
            return 0
        etcd_revision = self.of_etcd(revision)
        return etcd_revision if etcd_revision and self.of_store(etcd_revision) == revision else NEVER


_PAUSE_S = 0.2


class LeasedKey:
    """Holds one key from its creation until `release`. To be made within a running event loop."""

    def __init__(
        self, connection: EtcdConnection, keys: KeySpace, key: str, value: bytes, ttl_s: int, tasks: BackgroundTasks
    ) -> None:
        self._connection = connection
        self._put = [messages.put_operation(keys.last, b"")]
        self._key = keys.of(key)
        self._value = value
        self._ttl_s = ttl_s
        self._lease = 0
        self._held = asyncio.Event()
        self._trouble = ""
        self._keeper = tasks.start("lease of the liveness key", self._keep)

    async def held(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until the key exists for the first time; raises a `ConnectionError` with the reason on a timeout."""
        try:
            async with asyncio.timeout(patience_s):
                await self._held.wait()
        except TimeoutError:
            raise EtcdUnavailable(self._trouble or "the metadata store does not answer") from None

    async def release(self) -> None:
        """Delete the key at once, if etcd can be reached, otherwise when its lease expires."""
        self._keeper.cancel()
        await asyncio.wait([self._keeper.task])
        if self._lease:
            with suppress(EtcdUnavailable, EtcdDeclined):
                await self._connection.call(messages.LEASE_REVOKE, messages.lease_id(self._lease))

    async def _keep(self) -> None:
        while True:
            try:
                await self._take()
                while await self._renew():
                    if await self._read_key() is None:
                        await self._put_again()
                    await asyncio.sleep(self._ttl_s / 3)
            except (EtcdUnavailable, EtcdDeclined) as trouble:
                self._trouble = str(trouble)
                await asyncio.sleep(_PAUSE_S)

    async def _take(self) -> None:
        answer = await self._connection.call(messages.LEASE_GRANT, messages.lease_grant(self._ttl_s))
        self._lease = messages.granted_lease(answer)
        if self._held.is_set():
            await self._put_again()
        else:
            # also if another holder had it
            await self._put_key([])
            self._held.set()

    async def _put_again(self) -> None:
        """Skipped if the key has another value, also at the moment of the put: then there is a later holder."""
        found = await self._read_key()
        if found is None or found.value == self._value:
            await self._put_key([messages.if_unmodified(self._key, 0 if found is None else found.modified)])

    async def _put_key(self, compares: list[bytes]) -> None:
        putting = messages.put_operation(self._key, self._value, self._lease)
        await self._connection.ask(messages.TXN, messages.txn(compares, [putting, *self._put], []), self._ttl_s)

    async def _read_key(self) -> messages.KeyValue | None:
        """The key's value, with any holder."""
        answer = await self._connection.ask(messages.RANGE, messages.range_request(self._key), self._ttl_s)
        found = messages.key_values(answer)
        return found[0] if found else None

    async def _renew(self) -> bool:
        """Whether the lease is alive; asks until there is an answer."""
        while True:
            try:
                return await self._remaining_s() > 0
            except EtcdUnavailable:
                await asyncio.sleep(_PAUSE_S)

    async def _remaining_s(self) -> int:
        endpoint = self._connection.endpoint
        try:
            stream = await self._connection.open_stream(messages.LEASE_KEEP_ALIVE)
            try:
                async with asyncio.timeout(CALL_DEADLINE_S):
                    await stream.write(messages.lease_id(self._lease))
                    data = await stream.read()
            finally:
                stream.cancel()
            if isinstance(data, bytes):
                return messages.remaining_ttl_s(data)
        except grpc.aio.AioRpcError as error:
            self._connection.give_up(endpoint)
            raise error_of_call(error.code(), error.details() or "", endpoint) from None
        except (TimeoutError, asyncio.InvalidStateError, EtcdUnavailable):
            self._connection.give_up(endpoint)
            raise EtcdUnavailable(f"{endpoint} does not renew the lease") from None
        raise EtcdUnavailable(f"{endpoint} ended the stream")
