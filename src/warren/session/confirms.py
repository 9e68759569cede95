"""Publisher confirms of one channel.

Publishes are numbered from 1 in the order they arrive. Whatever settles during a turn is told at its end: one
`basic.ack` with `multiple` for a run of settled ones, a `basic.nack` for each that a queue refused. Because runs are
told in order, `multiple` never passes a publish that is neither acked nor nacked.

Not here: when a publish counts as settled (`model.ports.QueuePort.publish`).
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.wire.frames import write_ack

ACK: Final[i64] = 80
NACK: Final[i64] = 120
MULTIPLE: Final[i64] = 1
REQUEUE: Final[i64] = 2
"""Means nothing in a confirm, but RabbitMQ sets it."""


@final
class Confirms:
    """Numbers publishes and tells their fate."""

    def __init__(self) -> None:
        # whether confirm.select was seen
        self.on: bool = False
        self.last_no: i64 = 0
        self._told: i64 = 0
        self._rejected: list[int] = []

    def settled(self) -> None:
        """The next publish is held as safely as its queues promise."""
        self.last_no += 1

    def rejected(self) -> None:
        """The next publish was refused by a queue."""
        self.last_no += 1
        self._rejected.append(self.last_no)

    def flush(self, out: BytesWriter, channel: i64) -> None:
        """Tell everything that is decided and not told yet."""
        for number in self._rejected:
            self._ack_to(out, channel, i64(number) - 1)
            write_ack(out, channel, NACK, number, REQUEUE)
            self._told = number
        if self._rejected:
            self._rejected = []
        self._ack_to(out, channel, self.last_no)

    def _ack_to(self, out: BytesWriter, channel: i64, number: i64) -> None:
        run: i64 = number - self._told
        if run <= 0:
            return
        write_ack(out, channel, ACK, number, MULTIPLE if run > 1 else 0)
        self._told = number
