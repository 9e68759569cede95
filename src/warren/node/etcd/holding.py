"""A key that is there as long as its holder is heard of.

The key hangs on a lease, which is renewed three times in its time to live. When etcd did not hear of it for that long,
the key is gone, and put again as soon as etcd can be reached. So it is when somebody deleted it who took its holder for
dead: each renewal looks for it. A later holder of the same key takes it over: the end of a lease takes only what still
hangs on it, and a key that says something else is not put again.

Not here: who watches the key (`node.etcd.watching`).
"""

import asyncio
from contextlib import suppress

import grpc
import grpc.aio

from warren.node.etcd import messages
from warren.node.etcd.connection import CALL_DEADLINE_S, PATIENCE_S, Declined, EtcdConnection, NoAnswer, failure
from warren.node.etcd.keys import KeySpace

_PAUSE_S = 0.2


class Holding:
    """Holds one key from its making until it is released. To be made within a running event loop."""

    def __init__(self, connection: EtcdConnection, keys: KeySpace, key: str, value: bytes, ttl_s: int) -> None:
        self._connection = connection
        self._put = [messages.putting(keys.last, b"")]
        self._key = keys.of(key)
        self._value = value
        self._ttl_s = ttl_s
        self._lease = 0
        self._held = asyncio.Event()
        self._trouble = ""
        self._keeper = asyncio.create_task(self._keep())

    async def held(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until the key is there for the first time; a `ConnectionError` that says why if it is not by then."""
        try:
            async with asyncio.timeout(patience_s):
                await self._held.wait()
        except TimeoutError:
            raise NoAnswer(self._trouble or "the metadata store does not answer") from None

    async def release(self) -> None:
        """The key goes at once, if etcd can be told, else when its time is over."""
        self._keeper.cancel()
        await asyncio.wait([self._keeper])
        if self._lease:
            with suppress(NoAnswer, Declined):
                await self._connection.call(messages.LEASE_REVOKE, messages.lease_id(self._lease))

    async def _keep(self) -> None:
        while True:
            try:
                await self._take()
                while await self._renew():
                    if await self._said() is None:
                        await self._put_again()
                    await asyncio.sleep(self._ttl_s / 3)
            except (NoAnswer, Declined) as trouble:
                self._trouble = str(trouble)
                await asyncio.sleep(_PAUSE_S)

    async def _take(self) -> None:
        answer = await self._connection.call(messages.LEASE_GRANT, messages.lease_grant(self._ttl_s))
        self._lease = messages.granted_lease(answer)
        if self._held.is_set():
            await self._put_again()
        else:
            # whoever had it before
            await self._put_key([])
            self._held.set()

    async def _put_again(self) -> None:
        """Unless it says something else, or does by the time it is put: whoever says that came later."""
        said = await self._said()
        if said is None or said.value == self._value:
            await self._put_key([messages.unmodified(self._key, 0 if said is None else said.modified)])

    async def _put_key(self, compares: list[bytes]) -> None:
        putting = messages.putting(self._key, self._value, self._lease)
        await self._connection.ask(messages.TXN, messages.txn(compares, [putting, *self._put], []), self._ttl_s)

    async def _said(self) -> messages.KeyValue | None:
        """What the key says, whoever has it."""
        answer = await self._connection.ask(messages.RANGE, messages.range_of(self._key), self._ttl_s)
        found = messages.key_values(answer)
        return found[0] if found else None

    async def _renew(self) -> bool:
        """Whether the lease lives; asks until somebody tells."""
        while True:
            try:
                return await self._remaining_s() > 0
            except NoAnswer:
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
            raise failure(error.code(), error.details() or "", endpoint) from None
        except (TimeoutError, asyncio.InvalidStateError, NoAnswer):
            self._connection.give_up(endpoint)
            raise NoAnswer(f"{endpoint} does not renew the lease") from None
        raise NoAnswer(f"{endpoint} ended the stream")
