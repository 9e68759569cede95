"""What members of a ring say to this node, and what becomes of it.

Not here: whose part it is (`broker.mirrors.rings`), the bytes (`mirroring.messages`).
"""

from typing import TYPE_CHECKING

from warren.errors import PeerFault
from warren.mirroring import messages
from warren.mirroring.messages import MessageReader

if TYPE_CHECKING:
    from warren.broker.mirrors.mastery import Mastery
    from warren.broker.mirrors.part import Part


def hear_follower(node: str, mastery: "Mastery", reader: MessageReader) -> None:
    """A mirror that follows says something."""
    kind = reader.kind
    if kind == messages.SAFE:
        mastery.master.safe(node, reader.word())
    elif kind == messages.HAS:
        mastery.master.told(node, reader.spans())
    elif kind == messages.TAKEN:
        mastery.newcomers.taken(node, reader.word())
    elif kind == messages.CAUGHT_UP:
        mastery.caught_up(node)
    else:
        raise PeerFault(f"a message of kind {kind} came from a mirror")


def hear_master(node: str, part: "Part", reader: MessageReader) -> bool:
    """A node says something as a master; whether it is the one that is followed."""
    mirror = part.mirror
    if (part.upstream.node, part.upstream.tag) != (node, reader.tag):
        return False
    kind = reader.kind
    if kind == messages.STEP:
        number, epoch, settled = reader.word(), reader.word(), reader.word()
        if settled:
            mirror.settle(settled)
        mirror.take(reader.step(number, epoch))
    elif kind == messages.SETTLE:
        mirror.settle(reader.word())
    elif kind == messages.PAST:
        _take_past(part, reader)
    elif kind == messages.RESUME:
        common = reader.word()
        mirror.resume(common, reader.word())
    elif kind == messages.START:
        number, lent = reader.word(), reader.word()
        mirror.start(number, lent, reader.marks())
    elif kind == messages.SURPLUS:
        for span in reader.spans():
            mirror.remove_past(span)
        part.begin_anew_if_it_must()
    elif kind == messages.SEEN:
        anew = reader.word() != 0
        mirror.take_seen(reader.rest(), anew)
    elif kind == messages.REMEMBERED:
        offset = reader.word()
        mirror.take_offset(reader.rest().decode("utf-8", "surrogateescape"), offset)
    elif kind == messages.PAST_OVER:
        mirror.past_is_over()
    else:
        raise PeerFault(f"a message of kind {kind} came from a master")
    return True


def _take_past(part: "Part", reader: MessageReader) -> None:
    position, kind, expires_at_ms = reader.word(), reader.word(), reader.word()
    returned, crc = reader.word(), reader.word()
    payload = reader.rest()
    part.mirror.take_past(position, kind >> 8, expires_at_ms, kind & 1 != 0, returned, payload, crc)
    part.upstream.taken(len(payload))
