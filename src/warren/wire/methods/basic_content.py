"""The methods of class basic that content follows, and those that ask for one message.

Their short strings are any bytes: RabbitMQ checks the UTF-8 of all methods but those that carry content.

Not here: the content itself (`wire.properties`, `wire.frames`).
"""

from typing import final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from warren.wire.methods.method import Method, flag_octet
from warren.wire.values import ArgumentReader, write_long, write_short, write_shortstr


@final
class BasicPublish(Method):
    """A message for an exchange; its content follows."""

    def __init__(
        self, exchange: str = "", routing_key: str = "", mandatory: bool = False, immediate: bool = False
    ) -> None:
        super().__init__(60, 40, "basic.publish")
        self.exchange: str = exchange
        self.routing_key: str = routing_key
        self.mandatory: bool = mandatory
        self.immediate: bool = immediate

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicPublish":
        reader.short()
        exchange = reader.shortstr()
        routing_key = reader.shortstr()
        bits = reader.bits()
        return BasicPublish(exchange, routing_key, bits & 1 != 0, bits & 2 != 0)

    def write(self, out: BytesWriter) -> None:
        write_short(out, 0)
        write_shortstr(out, self.exchange)
        write_shortstr(out, self.routing_key)
        out.append(flag_octet(self.mandatory, self.immediate))


@final
class BasicReturn(Method):
    """A message comes back to its publisher, unroutable; its content follows."""

    def __init__(self, reply_code: int, reply_text: str = "", exchange: str = "", routing_key: str = "") -> None:
        super().__init__(60, 50, "basic.return")
        self.reply_code: int = reply_code
        self.reply_text: str = reply_text
        self.exchange: str = exchange
        self.routing_key: str = routing_key

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicReturn":
        return BasicReturn(reader.short(), reader.shortstr(), reader.shortstr(), reader.shortstr())

    def write(self, out: BytesWriter) -> None:
        write_short(out, self.reply_code)
        write_shortstr(out, self.reply_text)
        write_shortstr(out, self.exchange)
        write_shortstr(out, self.routing_key)


@final
class BasicDeliver(Method):
    """A message for a consumer; its content follows."""

    def __init__(
        self, consumer_tag: str, delivery_tag: i64, redelivered: bool = False, exchange: str = "", routing_key: str = ""
    ) -> None:
        super().__init__(60, 60, "basic.deliver")
        self.consumer_tag: str = consumer_tag
        self.delivery_tag: i64 = delivery_tag
        self.redelivered: bool = redelivered
        self.exchange: str = exchange
        self.routing_key: str = routing_key

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicDeliver":
        consumer_tag = reader.shortstr()
        delivery_tag = reader.longlong()
        bits = reader.bits()
        exchange = reader.shortstr()
        routing_key = reader.shortstr()
        return BasicDeliver(consumer_tag, delivery_tag, bits & 1 != 0, exchange, routing_key)

    def write(self, out: BytesWriter) -> None:
        write_shortstr(out, self.consumer_tag)
        write_i64_be(out, self.delivery_tag)
        out.append(1 if self.redelivered else 0)
        write_shortstr(out, self.exchange)
        write_shortstr(out, self.routing_key)


@final
class BasicGet(Method):
    """Ask for the first ready message of a queue."""

    def __init__(self, queue: str, no_ack: bool = False) -> None:
        super().__init__(60, 70, "basic.get")
        self.queue: str = queue
        self.no_ack: bool = no_ack

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicGet":
        reader.short()
        queue = reader.text()
        bits = reader.bits()
        return BasicGet(queue, bits & 1 != 0)

    def write(self, out: BytesWriter) -> None:
        write_short(out, 0)
        write_shortstr(out, self.queue)
        out.append(1 if self.no_ack else 0)


@final
class BasicGetOk(Method):
    """Here it is, and so many are left; its content follows."""

    def __init__(
        self,
        delivery_tag: i64,
        redelivered: bool = False,
        exchange: str = "",
        routing_key: str = "",
        message_count: int = 0,
    ) -> None:
        super().__init__(60, 71, "basic.get-ok")
        self.delivery_tag: i64 = delivery_tag
        self.redelivered: bool = redelivered
        self.exchange: str = exchange
        self.routing_key: str = routing_key
        self.message_count: int = message_count

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicGetOk":
        delivery_tag = reader.longlong()
        bits = reader.bits()
        exchange = reader.shortstr()
        routing_key = reader.shortstr()
        message_count = reader.long()
        return BasicGetOk(delivery_tag, bits & 1 != 0, exchange, routing_key, message_count)

    def write(self, out: BytesWriter) -> None:
        write_i64_be(out, self.delivery_tag)
        out.append(1 if self.redelivered else 0)
        write_shortstr(out, self.exchange)
        write_shortstr(out, self.routing_key)
        write_long(out, self.message_count)


@final
class BasicGetEmpty(Method):
    """The queue has none."""

    def __init__(self) -> None:
        super().__init__(60, 72, "basic.get-empty")

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicGetEmpty":
        reader.text()
        return BasicGetEmpty()

    def write(self, out: BytesWriter) -> None:
        write_shortstr(out, "")
