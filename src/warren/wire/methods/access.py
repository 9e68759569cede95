"""The methods of class access, which AMQP dropped: old clients still ask for a ticket, and get one.

Not here: tickets in other methods: they are ignored on reading and zero on writing.
"""

from typing import final

from librt.strings import BytesWriter

from warren.wire.methods.method import Method, flag_octet
from warren.wire.values import ArgumentReader, write_short, write_shortstr


@final
class AccessRequest(Method):
    """An old client asks for access to a realm."""

    def __init__(
        self,
        realm: str = "",
        exclusive: bool = False,
        passive: bool = False,
        active: bool = False,
        allows_write: bool = False,
        allows_read: bool = False,
    ) -> None:
        super().__init__(30, 10, "access.request")
        self.realm: str = realm
        self.exclusive: bool = exclusive
        self.passive: bool = passive
        self.active: bool = active
        self.allows_write: bool = allows_write
        self.allows_read: bool = allows_read

    @staticmethod
    def read(reader: ArgumentReader) -> "AccessRequest":
        realm = reader.text()
        bits = reader.bits()
        return AccessRequest(realm, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, bits & 8 != 0, bits & 16 != 0)

    def write(self, out: BytesWriter) -> None:
        write_shortstr(out, self.realm)
        out.append(flag_octet(self.exclusive, self.passive, self.active, self.allows_write, self.allows_read))


@final
class AccessRequestOk(Method):
    """It gets a ticket, which nobody checks."""

    def __init__(self, ticket: int = 1) -> None:
        super().__init__(30, 11, "access.request-ok")
        self.ticket: int = ticket

    @staticmethod
    def read(reader: ArgumentReader) -> "AccessRequestOk":
        return AccessRequestOk(reader.short())

    def write(self, out: BytesWriter) -> None:
        write_short(out, self.ticket)
