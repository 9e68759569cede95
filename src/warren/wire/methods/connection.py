"""The methods of class connection: the handshake, its end, and news about the whole connection.

Not here: the order in which they may come (`broker.sessions.connection`).

The methods of class channel: its opening, its end, its flow.

Not here: what a channel does in between (`broker.sessions.channel`).

The methods of class access, which AMQP dropped: old clients still ask for a ticket, and get one.

Not here: tickets in other methods: they are ignored on reading and zero on writing.
"""

from typing import final

from librt.strings import BytesWriter

from warren.wire.field_tables import Table, write_table
from warren.wire.methods.method import Method, flag_octet
from warren.wire.scalars import write_long, write_longstr, write_octet, write_short, write_shortstr
from warren.wire.values import ArgumentReader


@final
class ConnectionStart(Method):
    """The server opens the handshake: who it is, how to authenticate."""

    def __init__(
        self,
        version_major: int = 0,
        version_minor: int = 9,
        server_properties: Table | None = None,
        mechanisms: bytes = b"",
        locales: bytes = b"en_US",
    ) -> None:
        super().__init__(10, 10, "connection.start")
        self.version_major: int = version_major
        self.version_minor: int = version_minor
        self.server_properties: Table = {} if server_properties is None else server_properties
        self.mechanisms: bytes = mechanisms
        self.locales: bytes = locales

    @staticmethod
    def read(reader: ArgumentReader) -> "ConnectionStart":
        return ConnectionStart(reader.octet(), reader.octet(), reader.table(), reader.longstr(), reader.longstr())

    def write(self, out: BytesWriter) -> None:
        write_octet(out, self.version_major)
        write_octet(out, self.version_minor)
        write_table(out, self.server_properties)
        write_longstr(out, self.mechanisms)
        write_longstr(out, self.locales)


@final
class ConnectionStartOk(Method):
    """The client picks a mechanism and answers its first challenge."""

    def __init__(
        self, mechanism: str, response: bytes, client_properties: Table | None = None, locale: str = "en_US"
    ) -> None:
        super().__init__(10, 11, "connection.start-ok")
        self.client_properties: Table = {} if client_properties is None else client_properties
        self.mechanism: str = mechanism
        self.response: bytes = response
        self.locale: str = locale

    @staticmethod
    def read(reader: ArgumentReader) -> "ConnectionStartOk":
        client_properties = reader.table()
        mechanism = reader.text()
        response = reader.longstr()
        locale = reader.text()
        return ConnectionStartOk(mechanism, response, client_properties, locale)

    def write(self, out: BytesWriter) -> None:
        write_table(out, self.client_properties)
        write_shortstr(out, self.mechanism)
        write_longstr(out, self.response)
        write_shortstr(out, self.locale)


@final
class ConnectionSecure(Method):
    """The server asks for one more answer of the mechanism."""

    def __init__(self, challenge: bytes) -> None:
        super().__init__(10, 20, "connection.secure")
        self.challenge: bytes = challenge

    @staticmethod
    def read(reader: ArgumentReader) -> "ConnectionSecure":
        return ConnectionSecure(reader.longstr())

    def write(self, out: BytesWriter) -> None:
        write_longstr(out, self.challenge)


@final
class ConnectionSecureOk(Method):
    """The client's answer to the challenge."""

    def __init__(self, response: bytes) -> None:
        super().__init__(10, 21, "connection.secure-ok")
        self.response: bytes = response

    @staticmethod
    def read(reader: ArgumentReader) -> "ConnectionSecureOk":
        return ConnectionSecureOk(reader.longstr())

    def write(self, out: BytesWriter) -> None:
        write_longstr(out, self.response)


@final
class ConnectionTune(Method):
    """The server's limits; zero means none."""

    def __init__(self, channel_max: int = 0, frame_max: int = 0, heartbeat: int = 0) -> None:
        super().__init__(10, 30, "connection.tune")
        self.channel_max: int = channel_max
        self.frame_max: int = frame_max
        self.heartbeat: int = heartbeat

    @staticmethod
    def read(reader: ArgumentReader) -> "ConnectionTune":
        return ConnectionTune(reader.short(), reader.long(), reader.short())

    def write(self, out: BytesWriter) -> None:
        write_short(out, self.channel_max)
        write_long(out, self.frame_max)
        write_short(out, self.heartbeat)


@final
class ConnectionTuneOk(Method):
    """The limits the client settled for."""

    def __init__(self, channel_max: int = 0, frame_max: int = 0, heartbeat: int = 0) -> None:
        super().__init__(10, 31, "connection.tune-ok")
        self.channel_max: int = channel_max
        self.frame_max: int = frame_max
        self.heartbeat: int = heartbeat

    @staticmethod
    def read(reader: ArgumentReader) -> "ConnectionTuneOk":
        return ConnectionTuneOk(reader.short(), reader.long(), reader.short())

    def write(self, out: BytesWriter) -> None:
        write_short(out, self.channel_max)
        write_long(out, self.frame_max)
        write_short(out, self.heartbeat)


@final
class ConnectionOpen(Method):
    """The client enters a virtual host."""

    def __init__(self, virtual_host: str = "/") -> None:
        super().__init__(10, 40, "connection.open")
        self.virtual_host: str = virtual_host

    @staticmethod
    def read(reader: ArgumentReader) -> "ConnectionOpen":
        virtual_host = reader.text()
        reader.text()
        reader.bits()
        return ConnectionOpen(virtual_host)

    def write(self, out: BytesWriter) -> None:
        write_shortstr(out, self.virtual_host)
        write_shortstr(out, "")
        out.append(0)


@final
class ConnectionOpenOk(Method):
    """The client is in."""

    def __init__(self) -> None:
        super().__init__(10, 41, "connection.open-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "ConnectionOpenOk":
        reader.text()
        return ConnectionOpenOk()

    def write(self, out: BytesWriter) -> None:
        write_shortstr(out, "")


@final
class ConnectionClose(Method):
    """One side ends the connection and says why; the method it blames, if any."""

    def __init__(
        self, reply_code: int, reply_text: str = "", blamed_class_id: int = 0, blamed_method_id: int = 0
    ) -> None:
        super().__init__(10, 50, "connection.close")
        self.reply_code: int = reply_code
        self.reply_text: str = reply_text
        self.blamed_class_id: int = blamed_class_id
        self.blamed_method_id: int = blamed_method_id

    @staticmethod
    def read(reader: ArgumentReader) -> "ConnectionClose":
        return ConnectionClose(reader.short(), reader.text(), reader.short(), reader.short())

    def write(self, out: BytesWriter) -> None:
        write_short(out, self.reply_code)
        write_shortstr(out, self.reply_text)
        write_short(out, self.blamed_class_id)
        write_short(out, self.blamed_method_id)


@final
class ConnectionCloseOk(Method):
    """The other side agrees: nothing follows."""

    def __init__(self) -> None:
        super().__init__(10, 51, "connection.close-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "ConnectionCloseOk":
        return ConnectionCloseOk()

    def write(self, out: BytesWriter) -> None:
        pass


@final
class ConnectionBlocked(Method):
    """The server stops reading from publishers for want of a rereader."""

    def __init__(self, reason: str) -> None:
        super().__init__(10, 60, "connection.blocked")
        self.reason: str = reason

    @staticmethod
    def read(reader: ArgumentReader) -> "ConnectionBlocked":
        return ConnectionBlocked(reader.text())

    def write(self, out: BytesWriter) -> None:
        write_shortstr(out, self.reason)


@final
class ConnectionUnblocked(Method):
    """The server reads on."""

    def __init__(self) -> None:
        super().__init__(10, 61, "connection.unblocked")

    @staticmethod
    def read(reader: ArgumentReader) -> "ConnectionUnblocked":
        return ConnectionUnblocked()

    def write(self, out: BytesWriter) -> None:
        pass


@final
class ConnectionUpdateSecret(Method):
    """The client renews its credentials."""

    def __init__(self, new_secret: bytes, reason: str = "") -> None:
        super().__init__(10, 70, "connection.update-secret")
        self.new_secret: bytes = new_secret
        self.reason: str = reason

    @staticmethod
    def read(reader: ArgumentReader) -> "ConnectionUpdateSecret":
        return ConnectionUpdateSecret(reader.longstr(), reader.text())

    def write(self, out: BytesWriter) -> None:
        write_longstr(out, self.new_secret)
        write_shortstr(out, self.reason)


@final
class ConnectionUpdateSecretOk(Method):
    """The renewed credentials hold."""

    def __init__(self) -> None:
        super().__init__(10, 71, "connection.update-secret-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "ConnectionUpdateSecretOk":
        return ConnectionUpdateSecretOk()

    def write(self, out: BytesWriter) -> None:
        pass


@final
class ChannelOpen(Method):
    """The client opens a channel."""

    def __init__(self) -> None:
        super().__init__(20, 10, "channel.open")

    @staticmethod
    def read(reader: ArgumentReader) -> "ChannelOpen":
        reader.text()
        return ChannelOpen()

    def write(self, out: BytesWriter) -> None:
        write_shortstr(out, "")


@final
class ChannelOpenOk(Method):
    """The channel is open."""

    def __init__(self) -> None:
        super().__init__(20, 11, "channel.open-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "ChannelOpenOk":
        reader.longstr()
        return ChannelOpenOk()

    def write(self, out: BytesWriter) -> None:
        write_longstr(out, b"")


@final
class ChannelFlow(Method):
    """One side asks the other to pause or to resume sending content."""

    def __init__(self, active: bool) -> None:
        super().__init__(20, 20, "channel.flow")
        self.active: bool = active

    @staticmethod
    def read(reader: ArgumentReader) -> "ChannelFlow":
        bits = reader.bits()
        return ChannelFlow(bits & 1 != 0)

    def write(self, out: BytesWriter) -> None:
        out.append(1 if self.active else 0)


@final
class ChannelFlowOk(Method):
    """The other side did."""

    def __init__(self, active: bool) -> None:
        super().__init__(20, 21, "channel.flow-ok")
        self.active: bool = active

    @staticmethod
    def read(reader: ArgumentReader) -> "ChannelFlowOk":
        bits = reader.bits()
        return ChannelFlowOk(bits & 1 != 0)

    def write(self, out: BytesWriter) -> None:
        out.append(1 if self.active else 0)


@final
class ChannelClose(Method):
    """One side ends the channel and says why; the method it blames, if any."""

    def __init__(
        self, reply_code: int, reply_text: str = "", blamed_class_id: int = 0, blamed_method_id: int = 0
    ) -> None:
        super().__init__(20, 40, "channel.close")
        self.reply_code: int = reply_code
        self.reply_text: str = reply_text
        self.blamed_class_id: int = blamed_class_id
        self.blamed_method_id: int = blamed_method_id

    @staticmethod
    def read(reader: ArgumentReader) -> "ChannelClose":
        return ChannelClose(reader.short(), reader.text(), reader.short(), reader.short())

    def write(self, out: BytesWriter) -> None:
        write_short(out, self.reply_code)
        write_shortstr(out, self.reply_text)
        write_short(out, self.blamed_class_id)
        write_short(out, self.blamed_method_id)


@final
class ChannelCloseOk(Method):
    """The other side agrees: the number may be used again."""

    def __init__(self) -> None:
        super().__init__(20, 41, "channel.close-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "ChannelCloseOk":
        return ChannelCloseOk()

    def write(self, out: BytesWriter) -> None:
        pass


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
