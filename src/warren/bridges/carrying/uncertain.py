"""Messages that may arrive twice: those that were published in a life that ended before all was known of them.

That is, at the end of a life,

- what was published and neither confirmed nor refused, and
- if the source was not left in good order, what was acked there lately: an ack has no answer. But a source hears what
  it is told in order, and with a prefetch of P it has at most P deliveries unsettled: when it has delivered n, it has
  heard of n - P at least, the first n - P that it was told of, whichever deliveries these were. And when it has
  answered anything, it has heard all that it was told before it was asked.

Not here: what is done about them, which is nothing: the source delivers them again.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from warren.bridges.host import HostLog
from warren.client.machine.deliveries import Delivery
from warren.errors import WarrenError
from warren.wire.properties import decode_properties

IDS_PER_LINE: Final = 50
PUBLISHING_ID: Final = "x-warren-publishing-id"


class LateAcks:
    """The deliveries that were acked last, as many as the source may not have heard of.

    Deliveries and what they were settled by are counted, each in the order in which it happened on one channel.
    """

    def __init__(self, prefetch: int) -> None:
        self._prefetch = prefetch
        # how many the source may have out that it knows to be unsettled
        self._allowed = prefetch
        self._delivered = 0
        self.settled = 0
        # each with how many were settled when it was
        self._acked: deque[tuple[int, bytes]] = deque()

    def answered(self, asked_at: int) -> None:
        """It said that it will deliver: it has heard what was settled before it was asked, `asked_at` in number.

        What a consumer before this one has left unsettled does not count for the prefetch of this one.
        """
        self._forget_up_to(asked_at)
        self._allowed = self._prefetch + self._delivered - asked_at

    def delivered(self, last_tag: int) -> None:
        self._delivered = last_tag
        self._forget_up_to(last_tag - self._allowed)

    def gave_up(self, count: int) -> None:
        """So many were settled otherwise: given back, or dropped."""
        self.settled += count

    def acked(self, deliveries: Sequence[Delivery]) -> None:
        self._acked.extend([(number, each.header_payload) for number, each in enumerate(deliveries, self.settled + 1)])
        self.settled += len(deliveries)

    def unheard(self) -> list[bytes]:
        """The headers of those that the source may deliver again."""
        return [header for _, header in self._acked]

    def _forget_up_to(self, number: int) -> None:
        while self._acked and self._acked[0][0] <= number:
            self._acked.popleft()


def message_ids(headers: Iterable[bytes]) -> list[str]:
    """Of messages, by the payloads of their headers; of those that have one."""
    ids = [_id_of(header) for header in headers]
    return [each for each in ids if each]


def tell(log: HostLog, described: dict[str, object], headers: list[bytes]) -> list[str]:
    """Write down which messages may come twice; their ids, as far as they have one."""
    ids = message_ids(headers)
    counts = {"count": len(headers), "without_id": len(headers) - len(ids)}
    for at in range(0, max(len(ids), 1), IDS_PER_LINE):
        log.warning("bridge.doubted", **described, **counts, message_ids=",".join(ids[at : at + IDS_PER_LINE]))
    return ids


def _id_of(header: bytes) -> str:
    try:
        properties = decode_properties(header, 0, len(header))
    except WarrenError:
        return ""
    if properties.message_id:
        return properties.message_id
    publishing_id = (properties.headers or {}).get(PUBLISHING_ID)
    return publishing_id if isinstance(publishing_id, str) else ""
