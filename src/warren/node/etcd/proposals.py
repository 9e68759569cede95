"""Commits to etcd, and how each one ended, also when etcd's answer was lost.

A transaction that got no answer may have been carried out, or may yet be, when a member that was stopped goes on.
Reading the keys it changes does not tell, because others change them too. So each transaction also takes a *slot*, a
key of this node alone:

1. it holds only if the slot is as this node left it, and puts a token of its own there;
2. no answer, or that there is no room: another transaction deletes the slot, if it is still as this node left it. If
   that holds, the first one can never come about. If it does not, the slot has the first one's token, and says with
   which revision it came about.

::

    slot as left, answer "no"     a key had moved: outdated
    slot deleted by step 2        did not come about; tried again while there is time
    slot has the token            agreed
    anything else                 somebody else writes as this node: unknown

Deleting needs no room, so a store that is full can still be asked. A slot is opened by reading it and putting it, again
only if it is as it was read; a slot serves one transaction at a time, and there are as many as were ever under way.

Invariant: nothing of ours that is still under way can come about once its outcome was told, unless that was `UNKNOWN`.

Not here: what is compared and changed (`node.etcd.store`).
"""

import asyncio
import secrets

from warren.node.etcd import messages
from warren.node.etcd.connection import Declined, EtcdConnection, Full, NoAnswer
from warren.node.etcd.keys import KeySpace
from warren.node.etcd.messages import KeyValue, TxnAnswer
from warren.store.metadata import AGREED, FAILED, OUTDATED, UNKNOWN, Decision

_UNOPENED = -1
_PAUSE_S = 0.1
_STRANGER = "another process writes to the metadata store under this node's name"


class _Slot:
    """A key of this node alone, and etcd's revision at which this node left it."""

    __slots__ = ("key", "left_at")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.left_at = _UNOPENED


class Proposals:
    """What this node proposes. Revisions here are etcd's own."""

    def __init__(self, connection: EtcdConnection, keys: KeySpace, node: str) -> None:
        self._connection = connection
        self._keys = keys
        self._node = node
        self._idle: list[_Slot] = []
        self._slots = 0
        self._run = secrets.token_bytes(8)
        self._proposed = 0

    async def decide(self, compares: list[bytes], operations: list[bytes], patience_s: float) -> Decision:
        """Carry out the operations, if the compares hold."""
        loop = asyncio.get_running_loop()
        end = loop.time() + patience_s
        slot = self._idle.pop() if self._idle else self._new_slot()
        try:
            while True:
                try:
                    if slot.left_at == _UNOPENED:
                        await self._open(slot)
                    decision = await self._propose(slot, compares, operations, end)
                except Declined as declined:
                    return Decision(FAILED, 0, str(declined))
                except NoAnswer as trouble:
                    # nothing of ours is under way
                    decision = Decision(FAILED, 0, str(trouble))
                if decision.outcome != FAILED or loop.time() + _PAUSE_S >= end:
                    return decision
                await asyncio.sleep(_PAUSE_S)
        finally:
            self._idle.append(slot)

    def _new_slot(self) -> _Slot:
        self._slots += 1
        return _Slot(self._keys.proposal(self._node, self._slots))

    def _new_token(self) -> bytes:
        self._proposed += 1
        return self._run + self._proposed.to_bytes(8, "big")

    async def _open(self, slot: _Slot) -> None:
        """Make it ours; whatever was under way with it cannot come about any more."""
        found = messages.key_values(await self._connection.call(messages.RANGE, messages.range_of(slot.key)))
        left_at = found[0].modified if found else 0
        answer = await self._txn(
            [messages.unmodified(slot.key, left_at)], [messages.putting(slot.key, self._new_token())], []
        )
        if not answer.succeeded:
            raise NoAnswer(_STRANGER)
        slot.left_at = answer.revision

    async def _propose(self, slot: _Slot, compares: list[bytes], operations: list[bytes], end: float) -> Decision:
        """`FAILED` if it is certain that it did not come about."""
        token = self._new_token()
        left_at, slot.left_at = slot.left_at, _UNOPENED
        try:
            answer = await self._txn(
                [messages.unmodified(slot.key, left_at), *compares],
                [messages.putting(slot.key, token), messages.putting(self._keys.last, b""), *operations],
                [messages.reading(slot.key)],
            )
        except Full as full:
            decision = await self._settle(slot, left_at, token, end, str(full))
            if decision.outcome == FAILED:
                raise
            return decision
        except Declined:
            slot.left_at = left_at
            raise
        except NoAnswer as trouble:
            return await self._settle(slot, left_at, token, end, str(trouble))
        if answer.succeeded:
            slot.left_at = answer.revision
            return Decision(AGREED, answer.revision)
        if _is_left(answer.found[0], left_at):
            slot.left_at = left_at
            return Decision(OUTDATED, answer.revision)
        return _told_by(answer.found[0], token)

    async def _settle(self, slot: _Slot, left_at: int, token: bytes, end: float, reason: str) -> Decision:
        """Find out about a transaction that got no answer, and see to it that it will not come about any more."""
        loop = asyncio.get_running_loop()
        while loop.time() < end:
            try:
                answer = await self._txn(
                    [messages.unmodified(slot.key, left_at)],
                    [messages.deleting(slot.key)],
                    [messages.reading(slot.key)],
                )
            except Declined as declined:
                return Decision(UNKNOWN, 0, str(declined))
            except NoAnswer as trouble:
                reason = str(trouble)
                await asyncio.sleep(_PAUSE_S)
                continue
            # deleted just now, or by an attempt before this one that got no answer either
            if answer.succeeded or not answer.found[0]:
                return Decision(FAILED, 0, reason)
            return _told_by(answer.found[0], token)
        return Decision(UNKNOWN, 0, reason)

    async def _txn(self, compares: list[bytes], success: list[bytes], failure: list[bytes]) -> TxnAnswer:
        request = messages.txn(compares, success, failure)
        return messages.txn_answer(await self._connection.call(messages.TXN, request))


def _is_left(found: list[KeyValue], left_at: int) -> bool:
    return bool(found) and found[0].modified == left_at


def _told_by(found: list[KeyValue], token: bytes) -> Decision:
    if found and found[0].value == token:
        return Decision(AGREED, found[0].modified)
    return Decision(UNKNOWN, 0, _STRANGER)
