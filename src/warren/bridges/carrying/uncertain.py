"""Messages that may arrive twice: those that were published in a life that ended before all was known of them.

That is, at the end of a life,

- what was published and neither confirmed nor refused, and
- if the source was not left in good order, what was acked there lately: an ack has no answer. But a source with a
  prefetch of P has at most P deliveries unacked, so it has heard every ack up to P before the last delivery.

Not here: what is done about them, which is nothing: the source delivers them again.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from warren.bridges.host import HostLog
from warren.client.machine.deliveries import Delivery
from warren.errors import WarrenError
from warren.wire.properties import decode_properties

IDS_PER_LINE: Final = 50
IDS_MAX: Final = 1000
PUBLISHING_ID: Final = "x-warren-publishing-id"


class LateAcks:
    """The deliveries that were acked last, as many as the source may not have heard of."""

    def __init__(self, prefetch: int) -> None:
        self._prefetch = prefetch
        self._acked: deque[tuple[int, bytes]] = deque(maxlen=max(prefetch, 1))

    def acked(self, deliveries: Iterable[Delivery]) -> None:
        self._acked.extend([(delivery.delivery_tag, delivery.header_payload) for delivery in deliveries])

    def unheard(self, last_tag: int) -> list[bytes]:
        """The headers of those that the source may deliver again, if the last it delivered has that tag."""
        return [header for tag, header in self._acked if tag > last_tag - self._prefetch]


def message_ids(headers: Iterable[bytes]) -> list[str]:
    """Of messages, by the payloads of their headers; of those that have one."""
    ids = [_id_of(header) for header in headers]
    return [each for each in ids if each]


def tell(log: HostLog, described: dict[str, object], headers: list[bytes]) -> list[str]:
    """Write down which messages may come twice; their ids, as far as they have one."""
    ids = message_ids(headers)
    told = ids[:IDS_MAX]
    counts = {"count": len(headers), "without_id": len(headers) - len(ids), "unnamed": len(ids) - len(told)}
    for at in range(0, max(len(told), 1), IDS_PER_LINE):
        log.warning("bridge.doubted", **described, **counts, message_ids=",".join(told[at : at + IDS_PER_LINE]))
    return told


def _id_of(header: bytes) -> str:
    try:
        properties = decode_properties(header, 0, len(header))
    except WarrenError:
        return ""
    if properties.message_id:
        return properties.message_id
    publishing_id = (properties.headers or {}).get(PUBLISHING_ID)
    return publishing_id if isinstance(publishing_id, str) else ""
