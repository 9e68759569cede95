"""The methods of class basic that manage consumers: prefetch, subscribing, cancelling.

Not here: those with content (`basic_content`), those that settle deliveries (`basic_settlement`).

The methods of class basic that content follows, and those that ask for one message.

Their short strings are any bytes: RabbitMQ checks the UTF-8 of all methods but those that carry content.

Not here: the content itself (`wire.properties`, `wire.frames`).

The methods of class basic that settle deliveries and publishes: acks, refusals, recovery.

Not here: what settling does (`session.unacked`).
"""

from typing import final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from warren.wire.field_tables import Table, write_table
from warren.wire.methods.method import Method, flag_octet
from warren.wire.scalars import write_long, write_short, write_shortstr
from warren.wire.values import ArgumentReader


@final
class BasicQos(Method):
    """How many unacked deliveries a consumer, or with `global_` the channel, may hold."""

    def __init__(self, prefetch_size: int = 0, prefetch_count: int = 0, global_: bool = False) -> None:
        super().__init__(60, 10, "basic.qos")
        self.prefetch_size: int = prefetch_size
        self.prefetch_count: int = prefetch_count
        self.global_: bool = global_

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicQos":
        prefetch_size = reader.long()
        prefetch_count = reader.short()
        bits = reader.bits()
        return BasicQos(prefetch_size, prefetch_count, bits & 1 != 0)

    def write(self, out: BytesWriter) -> None:
        write_long(out, self.prefetch_size)
        write_short(out, self.prefetch_count)
        out.append(1 if self.global_ else 0)


@final
class BasicQosOk(Method):
    """The limits hold."""

    def __init__(self) -> None:
        super().__init__(60, 11, "basic.qos-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicQosOk":
        return BasicQosOk()

    def write(self, out: BytesWriter) -> None:
        pass


@final
class BasicConsume(Method):
    """Subscribe to a queue; without a tag the server makes one up."""

    def __init__(
        self,
        queue: str,
        consumer_tag: str = "",
        no_local: bool = False,
        no_ack: bool = False,
        exclusive: bool = False,
        nowait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        super().__init__(60, 20, "basic.consume")
        self.queue: str = queue
        self.consumer_tag: str = consumer_tag
        self.no_local: bool = no_local
        self.no_ack: bool = no_ack
        self.exclusive: bool = exclusive
        self.nowait: bool = nowait
        self.arguments: Table = {} if arguments is None else arguments

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicConsume":
        reader.short()
        queue = reader.text()
        consumer_tag = reader.text()
        bits = reader.bits()
        arguments = reader.table()
        return BasicConsume(queue, consumer_tag, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, bits & 8 != 0, arguments)

    def write(self, out: BytesWriter) -> None:
        write_short(out, 0)
        write_shortstr(out, self.queue)
        write_shortstr(out, self.consumer_tag)
        out.append(flag_octet(self.no_local, self.no_ack, self.exclusive, self.nowait))
        write_table(out, self.arguments)


@final
class BasicConsumeOk(Method):
    """Subscribed under this tag."""

    def __init__(self, consumer_tag: str) -> None:
        super().__init__(60, 21, "basic.consume-ok")
        self.consumer_tag: str = consumer_tag

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicConsumeOk":
        return BasicConsumeOk(reader.text())

    def write(self, out: BytesWriter) -> None:
        write_shortstr(out, self.consumer_tag)


@final
class BasicCancel(Method):
    """End a subscription; from the server: the queue is gone."""

    def __init__(self, consumer_tag: str, nowait: bool = False) -> None:
        super().__init__(60, 30, "basic.cancel")
        self.consumer_tag: str = consumer_tag
        self.nowait: bool = nowait

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicCancel":
        consumer_tag = reader.text()
        bits = reader.bits()
        return BasicCancel(consumer_tag, bits & 1 != 0)

    def write(self, out: BytesWriter) -> None:
        write_shortstr(out, self.consumer_tag)
        out.append(1 if self.nowait else 0)


@final
class BasicCancelOk(Method):
    """The subscription has ended."""

    def __init__(self, consumer_tag: str) -> None:
        super().__init__(60, 31, "basic.cancel-ok")
        self.consumer_tag: str = consumer_tag

    @staticmethod
    def read(reader: ArgumentReader) -> "BasicCancelOk":
        return BasicCancelOk(reader.text())

    def write(self, out: BytesWriter) -> None:
        write_shortstr(out, self.consumer_tag)


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
