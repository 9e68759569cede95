"""A queue's messages are moved to another queue of the same virtual host.

Each is taken, published to the other queue, and acked when that has it: whatever happens in between, no message is
lost, though one may be in both. They go in batches, so that the disk is waited for once for many.

The queues that a header `CC` names had their copies when the message was published, so it loses that header.

Not here: one message at a time (`changes.messages`).
"""

from warren.admin.changes import fields
from warren.admin.changes.direct import message_link
from warren.admin.direct_link import DirectLink
from warren.admin.http.answers import Answer, json_answer
from warren.admin.http.call import Call
from warren.admin.http.faults import bad_request, not_found
from warren.admin.http.levels import in_vhost
from warren.admin.http.router import Resource
from warren.admin.station import Station
from warren.wire.header_edits import edit_headers
from warren.wire.method_stream import Heard
from warren.wire.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    QueueDeclare,
    QueueDeclareOk,
)

BATCH_MESSAGES = 200
BATCH_BYTES = 8 * 1024 * 1024


def routes(station: Station) -> dict[str, Resource]:
    return {"/api/queues/{vhost}/{name}/move": Resource(in_vhost, {"POST": move})}


async def move(call: Call) -> Answer:
    """`destination`, and `count` if not everything that is ready now; answered with how many went."""
    document = await call.document()
    fields.require(document, "destination")
    source, destination = call.params["name"], fields.text(document, "destination")
    queues = call.vhost().topology.queues
    if source not in queues:
        raise not_found()
    if destination not in queues:
        raise bad_request(f"no queue '{destination}' in vhost '{call.params['vhost']}'")
    if destination == source:
        raise bad_request("a queue's messages are in it already")
    moved = 0
    async with message_link(call) as link:
        # its home knows how many there are
        ready = (await link.ask(QueueDeclare(source, passive=True), QueueDeclareOk)).message_count
        wanted = fields.number(document, "count", ready)
        while moved < wanted:
            batch = await _take(link, source, min(BATCH_MESSAGES, wanted - moved))
            gone = await _hand_over(link, destination, batch)
            moved += gone
            if gone < len(batch) or not batch:
                break
    return json_answer({"moved": moved})


async def _take(link: DirectLink, queue: str, count: int) -> list[Heard]:
    taken: list[Heard] = []
    size_bytes = 0
    while len(taken) < count and size_bytes < BATCH_BYTES:
        heard = await link.ask_either(BasicGet(queue, False), BasicGetOk, BasicGetEmpty)
        if not isinstance(heard.method, BasicGetOk):
            break
        taken.append(heard)
        size_bytes += len(heard.body)
    return taken


async def _hand_over(link: DirectLink, queue: str, batch: list[Heard]) -> int:
    """How many the other queue took; the rest goes back to where it was."""
    if not batch:
        return 0
    contents = [(edit_headers(heard.header, ["CC"], {}), heard.body) for heard in batch]
    outcomes = await link.publish_all("", queue, contents)
    for heard, taken in zip(batch, outcomes, strict=True):
        assert isinstance(heard.method, BasicGetOk)
        tag = heard.method.delivery_tag
        link.tell(BasicAck(tag, False) if taken else BasicNack(tag, False, True))
    return outcomes.count(True)
