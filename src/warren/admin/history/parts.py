"""What a channel did with each queue and each exchange: how fast, in the last pass.

Only channels that did something are looked at, and of each only the last two looks are kept. A channel that deals
with very many queues is not taken apart: that would cost more than it tells.

Not here: what a channel did in all (`history.collection`), the counts themselves (`session.tallies`).
"""

from collections.abc import Container, Hashable

from warren.broker.watching.glances import taken_figures
from warren.session.channel import Channel

PARTS_MAX = 200

Parts = dict[tuple[str, str], list[int]]


class _Looks:
    """Two looks at a channel's parts."""

    __slots__ = ("before", "gap_ms", "last", "slot")

    def __init__(self, slot: int, gap_ms: int, before: Parts, last: Parts) -> None:
        self.slot = slot
        self.gap_ms = gap_ms
        self.before = before
        self.last = last


class ChannelParts:
    """The parts of all channels."""

    def __init__(self) -> None:
        self._looks: dict[Hashable, _Looks] = {}

    def look(self, key: Hashable, channel: Channel, slot: int, gap_ms: int) -> None:
        """The channel did something since the last pass."""
        tallies = channel.tallies
        if len(tallies.published_to) + len(tallies.taken_from) > PARTS_MAX:
            self._looks.pop(key, None)
            return
        seen: Parts = {("channel_exchange", name): [count] for name, count in channel.published_to().items()}
        for name, figures in channel.taken_from().items():
            seen["channel_queue", name] = taken_figures(figures)
        known = self._looks.get(key)
        self._looks[key] = _Looks(slot, gap_ms, {} if known is None else known.last, seen)

    def keep_only(self, channels: Container[Hashable]) -> None:
        """Forget the channels that are gone."""
        gone = [key for key in self._looks if key not in channels]
        for key in gone:
            del self._looks[key]

    def grown(self, kind: str, key: tuple[int, int, str], slot: int) -> tuple[list[int], int] | None:
        """By how much the figures of a part grew in the last pass, and how long that took."""
        connection_id, number, name = key
        looks = self._looks.get((connection_id, number))
        if looks is None or looks.slot < slot:
            return None
        last = looks.last.get((kind, name))
        if last is None:
            return None
        before = looks.before.get((kind, name)) or [0] * len(last)
        return [after - earlier for after, earlier in zip(last, before, strict=True)], looks.gap_ms
