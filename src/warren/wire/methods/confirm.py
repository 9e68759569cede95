"""The methods of class confirm, RabbitMQ's extension: acks for publishers.

Not here: when a publish is confirmed (`session.confirms`).
"""

from typing import final

from librt.strings import BytesWriter

from warren.wire.methods.method import Method
from warren.wire.values import ArgumentReader


@final
class ConfirmSelect(Method):
    """Confirm every publish on this channel from here on."""

    def __init__(self, nowait: bool = False) -> None:
        super().__init__(85, 10, "confirm.select")
        self.nowait: bool = nowait

    @staticmethod
    def read(reader: ArgumentReader) -> "ConfirmSelect":
        bits = reader.bits()
        return ConfirmSelect(bits & 1 != 0)

    def write(self, out: BytesWriter) -> None:
        out.append(1 if self.nowait else 0)


@final
class ConfirmSelectOk(Method):
    """The first publish from here on is number 1."""

    def __init__(self) -> None:
        super().__init__(85, 11, "confirm.select-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "ConfirmSelectOk":
        return ConfirmSelectOk()

    def write(self, out: BytesWriter) -> None:
        pass
