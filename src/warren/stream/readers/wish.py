"""Which messages a reader wants.

A publisher may give a message a value (header `x-stream-filter-value`). A reader that names some (`x-stream-filter`) is
given those that bear one of them, and those that bear none if it says so (`x-stream-match-unfiltered`).

Not here: readers of whole chunks, who choose by themselves (`stream.readers.chunks`).
"""

from typing import Final, final

from librt.strings import read_i32_be
from mypy_extensions import i64

from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.model.ports import Consumer
from warren.wire.properties import PropertyScan, find_header
from warren.wire.property_scan import FIXED_BYTES

FILTER_HEADER: Final = b"x-stream-filter-value"
FILTER_ARGUMENT: Final = "x-stream-filter"
UNFILTERED_ARGUMENT: Final = "x-stream-match-unfiltered"
LONG_STRING: Final[i64] = 0x53
BEFORE_FLAGS: Final = bytes(FIXED_BYTES - 2)
"""What a content header has before its properties, which means nothing here."""


@final
class Wish:
    """What one reader named; nothing means everything."""

    def __init__(self, consumer: Consumer, where: str) -> None:
        """A `ChannelFault` if what its arguments ask for makes no sense."""
        given = consumer.arguments.get(FILTER_ARGUMENT)
        values = given if isinstance(given, list) else [] if given is None else [given]
        self._values: set[bytes] = set()
        for value in values:
            if not isinstance(value, str):
                raise ChannelFault(PRECONDITION_FAILED, f"invalid arg '{FILTER_ARGUMENT}' for {where}: not a string")
            self._values.add(value.encode("utf-8", "surrogateescape"))
        self.everything: bool = not self._values
        self._unfiltered: bool = consumer.arguments.get(UNFILTERED_ARGUMENT) is True
        self._scan: PropertyScan = PropertyScan()

    def covers(self, properties: bytes) -> bool:
        """Whether it wants a message with these properties, from their flags on."""
        if self.everything:
            return True
        if properties.find(FILTER_HEADER) < 0:
            return self._unfiltered
        payload = BEFORE_FLAGS + properties
        scan = self._scan
        scan.scan(payload, 0, len(payload))
        at = find_header(payload, scan.headers_start, scan.headers_end, FILTER_HEADER)
        # a value that is no text is none
        if at < 0 or payload[at] != LONG_STRING:
            return self._unfiltered
        size = i64(read_i32_be(payload, at + 1)) & 0xFFFFFFFF
        return payload[at + 5 : at + 5 + size] in self._values
