"""A reader for the arguments of a method.

Invariant: a read past the end raises a `ConnectionFault` that quotes the arguments in RabbitMQ's words; only a field
table raises any other fault.

Text is UTF-8. RabbitMQ checks that only after it has read all arguments, and not in methods that carry content. So
`text` records malformed UTF-8, and `decode_method` raises the fault at the end; `shortstr` takes any bytes.

Not here: the methods (`wire.methods`), tables (`wire.field_tables`), writing integers and strings (`wire.scalars`).
"""

from typing import final

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.errors import FRAME_ERROR, ConnectionFault
from warren.wire.field_tables import Table, decode_table
from warren.wire.scalars import (
    lossless_text,
    octets_text,
)


@final
class ArgumentReader:
    """Reads `data[start:end]` from start to end."""

    def __init__(self, data: bytes, start: i64, end: i64) -> None:
        self._data: bytes = data
        self._start: i64 = start
        self._at: i64 = start
        self._end: i64 = end
        self.malformed_text: bool = False

    def octet(self) -> i64:
        at: i64 = self._take(1)
        return self._data[at]

    def bits(self) -> i64:
        """An octet of flags, the first flag in the lowest bit."""
        at: i64 = self._take(1)
        return self._data[at]

    def short(self) -> i64:
        return i64(read_i16_be(self._data, self._take(2))) & 0xFFFF

    def long(self) -> i64:
        return i64(read_i32_be(self._data, self._take(4))) & 0xFFFFFFFF

    def longlong(self) -> i64:
        """64 bits as a signed integer."""
        return read_i64_be(self._data, self._take(8))

    def shortstr(self) -> str:
        """A short string of any bytes: those that are not UTF-8 are escaped."""
        at: i64 = self._take(self.octet())
        return lossless_text(self._data[at : self._at])

    def text(self) -> str:
        """A short string that must be UTF-8; if it is not, `malformed_text` is set."""
        at: i64 = self._take(self.octet())
        octets = self._data[at : self._at]
        try:
            return octets.decode("utf-8")
        except UnicodeDecodeError:
            self.malformed_text = True
            return octets.decode("utf-8", "surrogateescape")

    def longstr(self) -> bytes:
        at: i64 = self._take(self.long())
        return self._data[at : self._at]

    def table(self) -> Table:
        at: i64 = self._take(self.long())
        return decode_table(self._data, at, self._at)

    def at_end(self) -> bool:
        return self._at == self._end

    def fault(self) -> ConnectionFault:
        """The fault for arguments that cannot be decoded."""
        return ConnectionFault(FRAME_ERROR, octets_text("cannot decode ", self._data, self._start, self._end))

    def _take(self, size: i64) -> i64:
        """Consume `size` octets and return their offset."""
        at: i64 = self._at
        if size > self._end - at:
            raise self.fault()
        self._at = at + size
        return at
