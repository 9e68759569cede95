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

JOIN_PATIENCE_S = 60.0
_PAUSE_S = 0.2
_RELIEF_PATIENCE_S = 30.0
_NOT_YET = ("in sync with leader", "too many learner members", "unhealthy cluster", "not enough started members")


async def members(connection: EtcdConnection) -> list[Member]:
    return messages.members(await connection.ask(messages.MEMBER_LIST, b""))


async def add_learner(connection: EtcdConnection, name: str, peer_url: str) -> list[Member]:
    """Have a member there that has not started yet; all members, this one without a name.

    Whoever has this name or this address is an earlier life of it and is removed. A `ConnectionError` if the others
    cannot take it in within a minute.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + JOIN_PATIENCE_S
    while True:
        trouble: Declined | NoAnswer
        try:
            for member in await members(connection):
                if member.name == name or peer_url in member.peer_urls:
                    await connection.call(messages.MEMBER_REMOVE, messages.member_id(member.id))
            await connection.call(messages.MEMBER_ADD, messages.member_addition(peer_url))
            return await members(connection)
        except Declined as declined:
            if not any(reason in str(declined) for reason in _NOT_YET):
                raise
            trouble = declined
        except NoAnswer as silence:
            # what was under way is seen by the next look at the members
            trouble = silence
        if loop.time() > end:
            raise NoAnswer(f"the members of etcd do not take this node in: {trouble}")
        await asyncio.sleep(_PAUSE_S)


async def promote(connection: EtcdConnection, peer_url: str) -> None:
    """Give the learner at this address its vote, as soon as it has caught up; for ever if nobody answers."""
    while True:
        try:
            found = [member for member in await members(connection) if peer_url in member.peer_urls]
            if not found:
                raise StoreError(f"the etcd member at {peer_url} was removed from its cluster")
            if not found[0].learner:
                return
            await connection.call(messages.MEMBER_PROMOTE, messages.member_id(found[0].id))
        except Declined as declined:
            if not any(reason in str(declined) for reason in _NOT_YET):
                raise
        except NoAnswer:
            pass
        await asyncio.sleep(_PAUSE_S)


async def remove(connection: EtcdConnection, name: str) -> bool:
    """Whether there was a member of this name; now there is none."""
    removed = False
    for member in await members(connection):
        if member.name == name:
            await connection.call(messages.MEMBER_REMOVE, messages.member_id(member.id))
            removed = True
    return removed


async def relieve(connection: EtcdConnection) -> None:
    """Give back the room of everything that was overwritten or deleted, and let a store that was full take changes."""
    answer = await connection.ask(messages.RANGE, messages.range_of(b"/"))
    compaction = messages.compaction(messages.revision_of(answer))
    # declined if nothing happened since it was done last
    with suppress(Declined):
        await connection.call(messages.COMPACT, compaction, _RELIEF_PATIENCE_S)
    for member in await members(connection):
        for url in member.client_urls[:1]:
            endpoint = url.partition("://")[2]
            await connection.call(messages.DEFRAGMENT, b"", _RELIEF_PATIENCE_S, endpoint)
    await connection.ask(messages.ALARM, messages.space_alarm_over())
