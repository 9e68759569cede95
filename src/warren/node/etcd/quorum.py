"""Who belongs to etcd, and the room that it takes: what is asked of all its members together.

A member joins as a learner: it has no vote, so that one that never comes up costs the others nothing, and is promoted
once it has caught up. One that lost its data must not come back under its old id, because it would have forgotten what
it promised to the others: whoever bears its name or its address is removed, and it joins as another.

Not here: the process of a member (`node.etcd.member`).
"""

import asyncio
from contextlib import suppress

from warren.errors import StoreError
from warren.node.etcd import messages
from warren.node.etcd.connection import Declined, EtcdConnection, NoAnswer
from warren.node.etcd.messages import Member

PATIENCE_S = 60.0
_PAUSE_S = 0.2
_STRAY_S = 20.0
_RELIEF_PATIENCE_S = 30.0
# an id that was removed a moment ago is given out again within the same second, and refused; a member that lags behind
# takes one that has its vote for a learner
_NOT_YET = (
    "member not found",
    "can only promote a learner",
    "in sync with leader",
    "too many learner members",
    "unhealthy cluster",
    "not enough started members",
)


async def members(connection: EtcdConnection) -> list[Member]:
    return messages.members(await connection.ask(messages.MEMBER_LIST, b""))


async def add_learner(connection: EtcdConnection, name: str, peer_url: str) -> list[Member]:
    """Have a member there that has not started yet; all members, this one without a name.

    Whoever has this name or this address is an earlier life of it and is removed. So is a learner that never started
    and stands in the way, because there is only one at a time: whoever meant to be it has given up.
    """
    loop = asyncio.get_running_loop()
    strays: dict[int, float] = {}
    end = loop.time() + PATIENCE_S
    while True:
        trouble: Declined | NoAnswer
        try:
            for member in await members(connection):
                seen = strays.setdefault(member.id, loop.time()) if not member.name else loop.time()
                if member.name == name or peer_url in member.peer_urls or loop.time() > seen + _STRAY_S:
                    await connection.call(messages.MEMBER_REMOVE, messages.member_id(member.id))
            await connection.call(messages.MEMBER_ADD, messages.member_addition(peer_url))
            return await members(connection)
        except (Declined, NoAnswer) as error:
            # what was under way is seen by the next look at the members
            trouble = error
        await _wait(trouble, end)


async def relocate(connection: EtcdConnection, member: int, peer_url: str) -> None:
    """Have all members know that this one is reached there; for ever if nobody answers."""
    while True:
        trouble: Declined | NoAnswer
        try:
            found = [each for each in await members(connection) if each.id == member]
            if not found or found[0].peer_urls == (peer_url,):
                return
            await connection.call(messages.MEMBER_UPDATE, messages.member_address(member, peer_url))
            continue
        except (Declined, NoAnswer) as error:
            trouble = error
        await _wait(trouble, None)


async def promote(connection: EtcdConnection, peer_url: str) -> None:
    """Give the learner at this address its vote, as soon as it has caught up; for ever if nobody answers."""
    while True:
        trouble: Declined | NoAnswer
        try:
            found = [member for member in await members(connection) if peer_url in member.peer_urls]
            if not found:
                raise StoreError(f"the etcd member at {peer_url} was removed from its cluster")
            if not found[0].learner:
                return
            await connection.call(messages.MEMBER_PROMOTE, messages.member_id(found[0].id))
            continue
        except (Declined, NoAnswer) as error:
            trouble = error
        await _wait(trouble, None)


async def remove(connection: EtcdConnection, name: str) -> bool:
    """Whether there was a member of this name; now there is none."""
    end = asyncio.get_running_loop().time() + PATIENCE_S
    removed = False
    while True:
        trouble: Declined | NoAnswer
        try:
            found = [member for member in await members(connection) if member.name == name]
            if not found:
                return removed
            removed = True
            await connection.call(messages.MEMBER_REMOVE, messages.member_id(found[0].id))
            continue
        except (Declined, NoAnswer) as error:
            trouble = error
        await _wait(trouble, end)


async def relieve(connection: EtcdConnection) -> None:
    """Have the member that answers give back the room of what was overwritten or deleted, and take changes again."""
    answer = await connection.ask(messages.RANGE, messages.range_of(b"/"))
    compaction = messages.compaction(messages.revision_of(answer))
    # declined if nothing happened since it was done last
    with suppress(Declined):
        await connection.call(messages.COMPACT, compaction, _RELIEF_PATIENCE_S)
    await connection.call(messages.DEFRAGMENT, b"", _RELIEF_PATIENCE_S)
    member = messages.status(await connection.ask(messages.STATUS, b"")).member_id
    await connection.ask(messages.ALARM, messages.space_alarm_over(member))


async def _wait(trouble: Declined | NoAnswer, end: float | None) -> None:
    """Before the next attempt, if another one may help."""
    if isinstance(trouble, Declined) and not any(reason in str(trouble) for reason in _NOT_YET):
        raise trouble
    if end is not None and asyncio.get_running_loop().time() > end:
        raise NoAnswer(f"the members of etcd do not agree to it: {trouble}")
    await asyncio.sleep(_PAUSE_S)
