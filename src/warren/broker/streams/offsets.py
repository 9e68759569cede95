"""Offsets of a stream: their relation to positions, and the start offset that a reader asks for.

Not here: the messages at offsets (`broker.streams.tail`, `broker.streams.archive_index`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.erlang_terms import term, type_name
from warren.broker.model.replica_set import POSITION_BITS
from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.wire.field_tables import Timestamp

OFFSET_ARGUMENT: Final = "x-stream-offset"
OFFSET_MASK: Final[i64] = (1 << POSITION_BITS) - 1

SECONDS_OF: Final = {"Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
"""The units of ages and intervals in seconds: a year has 365 days, a month 30."""

SECONDS_MAX: Final = 1 << 50
"""Longer intervals and later times count as this: in milliseconds it fits into 64 bits."""

FIRST: Final = "first"
LAST: Final = "last"
NEXT: Final = "next"


def offset_of(position: i64) -> i64:
    return (position & OFFSET_MASK) - 1


def position_of(epoch: i64, offset: i64) -> i64:
    return epoch << POSITION_BITS | (offset + 1)


@final
class StartOffset:
    """The start of a reader: a name (`first`, `last`, `next`), an offset, or a time."""

    def __init__(self, name: str = "", offset: i64 = -1, arrived_ms: i64 = -1) -> None:
        self.name: str = name
        self.offset: i64 = offset
        self.arrived_ms: i64 = arrived_ms


def start_offset_of(value: object, where: str, now_ms: i64) -> StartOffset:
    """The start that the argument asks for; a `ChannelFault` if it is invalid."""
    if value is None:
        return StartOffset(NEXT)
    if isinstance(value, bytes):
        # some clients send strings as bytes
        return start_offset_of(value.decode("utf-8", "surrogateescape"), where, now_ms)
    if isinstance(value, str):
        if value in (FIRST, LAST, NEXT):
            return StartOffset(value)
        seconds = seconds_in(value)
        if seconds > 0:
            return StartOffset(arrived_ms=max(now_ms - seconds * 1000, 0))
    elif isinstance(value, Timestamp):
        return StartOffset(arrived_ms=min(value.seconds, SECONDS_MAX) * 1000)
    elif isinstance(value, int) and not isinstance(value, bool):
        return StartOffset(offset=max(value, 0))
    reason = f"{{invalid_stream_offset_arg,{{{type_name(value)},{term(value)}}}}}"
    raise ChannelFault(PRECONDITION_FAILED, f"invalid arg '{OFFSET_ARGUMENT}' for {where}: {reason}")


def seconds_in(text: str) -> int:
    """The seconds of an age or interval such as `12h`; 0 if the text is none."""
    count, unit = text[:-1], text[-1:]
    if unit not in SECONDS_OF or not count.isascii() or not count.isdigit() or len(count) > 9:
        return 0
    return min(int(count) * SECONDS_OF[unit], SECONDS_MAX)
