"""Changes of the metadata from etcd, in order, across failures of members and connections.

A watch is a stream from one member. It ends when the member has no leader (`hasleader`). A stopped member would keep it
open and silent, so it is asked for progress every second. When the stream ends, another one begins with the next
member, after the last revision that was seen. If etcd has compacted the changes after that, the whole state is read and
reported as `MetadataReplaced`.

Progress notifications carry a revision, which is ignored: some versions of etcd send it ahead of changes that belong
before it. `EtcdStore.current` tells that nothing newer exists.

Invariant: all changes of a revision are reported once, together, and after those of every lower revision; or a
`MetadataReplaced` covers it.

Not here: reading the whole state (`node.etcd.store`).
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from itertools import groupby

import grpc
import grpc.aio

from warren.broker.model.events import MetadataSnapshot
from warren.broker.model.journal import MetadataChange
from warren.node.etcd import messages
from warren.node.etcd.connection import EtcdConnection, EtcdDeclined, EtcdUnavailable, error_of_call, is_token_error
from warren.node.etcd.keys import KeySpace, RevisionMap
from warren.node.etcd.messages import WatchResponse
from warren.node.parameter_cipher import ParameterCipher

SILENCE_S = 3.0
_SIGN_EVERY_S = 1.0
_PAUSE_S = 0.1

SnapshotReader = Callable[[], Awaitable[tuple[int, MetadataSnapshot]]]


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    """All changes of one transaction, each with its revision."""

    revision: int
    changes: list[MetadataChange]


@dataclass(frozen=True, slots=True)
class MetadataReplaced:
    """Changes were missed: this is the whole state at this revision."""

    revision: int
    snapshot: MetadataSnapshot


class _Compacted(Exception):
    """Etcd has compacted the requested changes."""


class MetadataWatch:
    """Watches the keys of one cluster. Revisions are the store's."""

    def __init__(
        self,
        connection: EtcdConnection,
        keys: KeySpace,
        numbering: RevisionMap,
        cipher: ParameterCipher,
        snapshot: SnapshotReader,
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._numbering = numbering
        self._cipher = cipher
        self._snapshot = snapshot

    async def changes(self, after: int) -> AsyncGenerator[MetadataChanged | MetadataReplaced, None]:
        """Everything after this revision, for ever. Raises `StoreError` if etcd declines."""
        seen = after
        while True:
            try:
                async with aclosing(self._conversation(seen)) as conversation:
                    async for changed in conversation:
                        seen = changed.revision
                        yield changed
            except EtcdUnavailable:
                await asyncio.sleep(_PAUSE_S)
            except _Compacted:
                try:
                    seen, snapshot = await self._snapshot()
                except EtcdUnavailable:
                    continue
                yield MetadataReplaced(seen, snapshot)

    async def _conversation(self, seen: int) -> AsyncGenerator[MetadataChanged, None]:
        """The changes from one stream, until it fails."""
        endpoint = self._connection.endpoint
        try:
            stream = await self._connection.open_stream(messages.WATCH)
        except EtcdUnavailable:
            self._connection.give_up(endpoint)
            raise
        signs = asyncio.create_task(self._ask_for_signs(stream, seen))
        try:
            while True:
                answer = await _next_answer(stream, endpoint)
                self._refuse_end(answer, endpoint)
                for changed in self._grouped(answer):
                    # a member may repeat changes
                    if changed.revision > seen:
                        seen = changed.revision
                        yield changed
        except EtcdUnavailable:
            self._connection.give_up(endpoint)
            raise
        finally:
            signs.cancel()
            stream.cancel()

    async def _ask_for_signs(self, stream: "grpc.aio.StreamStreamCall[bytes, bytes]", seen: int) -> None:
        """Begin the watch, and ask for progress. The reader notices when the stream ends."""
        try:
            start = self._numbering.of_etcd(seen) + 1
            await stream.write(messages.watch_creation(self._keys.keys, messages.prefix_end(self._keys.keys), start))
            while True:
                await asyncio.sleep(_SIGN_EVERY_S)
                await stream.write(messages.watch_progress())
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return

    def _refuse_end(self, answer: WatchResponse, endpoint: str) -> None:
        if answer.compacted:
            raise _Compacted
        if answer.canceled:
            if is_token_error(answer.reason):
                self._connection.forget_token()
                raise EtcdUnavailable(f"{endpoint} wants another token")
            if "permission denied" in answer.reason:
                raise EtcdDeclined(f"the metadata store refuses to be watched: {answer.reason}")
            raise EtcdUnavailable(f"{endpoint} ended the watch: {answer.reason}")

    def _grouped(self, answer: WatchResponse) -> list[MetadataChanged]:
        of_store = self._numbering.of_store
        changes = [
            MetadataChange(of_store(revision), name, None if value is None else self._cipher.opened(name, value))
            for revision, name, value in [(at, self._keys.name(key), value) for at, key, value in answer.events]
        ]
        return [
            MetadataChanged(revision, list(group))
            for revision, group in groupby(changes, lambda change: change.revision)
        ]


async def _next_answer(stream: "grpc.aio.StreamStreamCall[bytes, bytes]", endpoint: str) -> WatchResponse:
    try:
        async with asyncio.timeout(SILENCE_S):
            data = await stream.read()
    except TimeoutError:
        raise EtcdUnavailable(f"{endpoint} gives no sign of life") from None
    except grpc.aio.AioRpcError as error:
        raise error_of_call(error.code(), error.details() or "", endpoint) from None
    if not isinstance(data, bytes):
        raise EtcdUnavailable(f"{endpoint} ended the stream")
    return messages.watch_response(data)
