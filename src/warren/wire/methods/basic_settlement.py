"""The methods of class basic that settle deliveries and publishes: acks, refusals, recovery.

Not here: what settling does (`session.unacked`).
"""

from typing import final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from warren.wire.methods.method import Method, flag_octet
from warren.wire.values import ArgumentReader


@final
class BasicAck(Method):
    """Dealt with: this delivery, or with `multiple` all up to it; from the server: publishes."""

    def __init__(self, delivery_tag: i64 = 0, multiple: bool = False) -> None:
        super().__init__(60, 80, "basic.ack")
        self.delivery_tag: i64 = delivery_tag
        self.multiple: bool = multiple

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicAck":
        delivery_tag = reader.longlong()
        bits = reader.bits()
        return BasicAck(delivery_tag, bits & 1 != 0)

    def write(self, out: BytesWriter) -> None:
        write_i64_be(out, self.delivery_tag)
        out.append(1 if self.multiple else 0)


@final
class BasicReject(Method):
    """Refused: back to the queue, or away."""

    def __init__(self, delivery_tag: i64, requeue: bool = True) -> None:
        super().__init__(60, 90, "basic.reject")
        self.delivery_tag: i64 = delivery_tag
        self.requeue: bool = requeue

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicReject":
        delivery_tag = reader.longlong()
        bits = reader.bits()
        return BasicReject(delivery_tag, bits & 1 != 0)

    def write(self, out: BytesWriter) -> None:
        write_i64_be(out, self.delivery_tag)
        out.append(1 if self.requeue else 0)


@final
class BasicRecoverAsync(Method):
    """As `recover`, without an answer; deprecated."""

    def __init__(self, requeue: bool = False) -> None:
        super().__init__(60, 100, "basic.recover-async")
        self.requeue: bool = requeue

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicRecoverAsync":
        bits = reader.bits()
        return BasicRecoverAsync(bits & 1 != 0)

    def write(self, out: BytesWriter) -> None:
        out.append(1 if self.requeue else 0)


@final
class BasicRecover(Method):
    """Every unacked delivery goes back to its queue."""

    def __init__(self, requeue: bool = False) -> None:
        super().__init__(60, 110, "basic.recover")
        self.requeue: bool = requeue

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicRecover":
        bits = reader.bits()
        return BasicRecover(bits & 1 != 0)

    def write(self, out: BytesWriter) -> None:
        out.append(1 if self.requeue else 0)


@final
class BasicRecoverOk(Method):
    """They are back."""

    def __init__(self) -> None:
        super().__init__(60, 111, "basic.recover-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicRecoverOk":
        return BasicRecoverOk()

    def write(self, out: BytesWriter) -> None:
        pass


@final
class BasicNack(Method):
    """RabbitMQ's `reject` with `multiple`; from the server: publishes that nobody took."""

    def __init__(self, delivery_tag: i64 = 0, multiple: bool = False, requeue: bool = True) -> None:
        super().__init__(60, 120, "basic.nack")
        self.delivery_tag: i64 = delivery_tag
        self.multiple: bool = multiple
        self.requeue: bool = requeue

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicNack":
        delivery_tag = reader.longlong()
        bits = reader.bits()
        return BasicNack(delivery_tag, bits & 1 != 0, bits & 2 != 0)

    def write(self, out: BytesWriter) -> None:
        write_i64_be(out, self.delivery_tag)
        out.append(flag_octet(self.multiple, self.requeue))
