"""The methods of class channel: its opening, its end, its flow.

Not here: what a channel does in between (`session.channel`).
"""

from typing import final

from librt.strings import BytesWriter

from warren.wire.methods.method import Method
from warren.wire.values import ArgumentReader, write_longstr, write_short, write_shortstr


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
