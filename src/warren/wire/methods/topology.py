"""The methods of class queue: declaring, binding, purging and deleting queues.

Not here: what queues do (`queue`).

The methods of class exchange: declaring, deleting and binding exchanges.

Not here: what exchanges do (`routing`).
"""

from typing import final

from librt.strings import BytesWriter

from warren.wire.field_tables import Table, write_table
from warren.wire.methods.method import Method, flag_octet
from warren.wire.scalars import write_long, write_short, write_shortstr
from warren.wire.values import ArgumentReader


@final
class QueueDeclare(Method):
    """Create a queue, or check that it is there; without a name the server makes one up."""

    def __init__(
        self,
        queue: str = "",
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        nowait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        super().__init__(50, 10, "queue.declare")
        self.queue: str = queue
        self.passive: bool = passive
        self.durable: bool = durable
        self.exclusive: bool = exclusive
        self.auto_delete: bool = auto_delete
        self.nowait: bool = nowait
        self.arguments: Table = {} if arguments is None else arguments

    @staticmethod
    def read(reader: ArgumentReader) -> "QueueDeclare":
        reader.short()
        queue = reader.text()
        bits = reader.bits()
        arguments = reader.table()
        return QueueDeclare(
            queue, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, bits & 8 != 0, bits & 16 != 0, arguments
        )

    def write(self, out: BytesWriter) -> None:
        write_short(out, 0)
        write_shortstr(out, self.queue)
        out.append(flag_octet(self.passive, self.durable, self.exclusive, self.auto_delete, self.nowait))
        write_table(out, self.arguments)


@final
class QueueDeclareOk(Method):
    """The queue is there, with this name and these numbers."""

    def __init__(self, queue: str, message_count: int = 0, consumer_count: int = 0) -> None:
        super().__init__(50, 11, "queue.declare-ok")
        self.queue: str = queue
        self.message_count: int = message_count
        self.consumer_count: int = consumer_count

    @staticmethod
    def read(reader: ArgumentReader) -> "QueueDeclareOk":
        return QueueDeclareOk(reader.text(), reader.long(), reader.long())

    def write(self, out: BytesWriter) -> None:
        write_shortstr(out, self.queue)
        write_long(out, self.message_count)
        write_long(out, self.consumer_count)


@final
class QueueBind(Method):
    """Route from an exchange to a queue."""

    def __init__(
        self, queue: str, exchange: str, routing_key: str = "", nowait: bool = False, arguments: Table | None = None
    ) -> None:
        super().__init__(50, 20, "queue.bind")
        self.queue: str = queue
        self.exchange: str = exchange
        self.routing_key: str = routing_key
        self.nowait: bool = nowait
        self.arguments: Table = {} if arguments is None else arguments

    @staticmethod
    def read(reader: ArgumentReader) -> "QueueBind":
        reader.short()
        queue = reader.text()
        exchange = reader.text()
        routing_key = reader.text()
        bits = reader.bits()
        arguments = reader.table()
        return QueueBind(queue, exchange, routing_key, bits & 1 != 0, arguments)

    def write(self, out: BytesWriter) -> None:
        write_short(out, 0)
        write_shortstr(out, self.queue)
        write_shortstr(out, self.exchange)
        write_shortstr(out, self.routing_key)
        out.append(1 if self.nowait else 0)
        write_table(out, self.arguments)


@final
class QueueBindOk(Method):
    """The binding is there."""

    def __init__(self) -> None:
        super().__init__(50, 21, "queue.bind-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "QueueBindOk":
        return QueueBindOk()

    def write(self, out: BytesWriter) -> None:
        pass


@final
class QueuePurge(Method):
    """Drop every ready message."""

    def __init__(self, queue: str, nowait: bool = False) -> None:
        super().__init__(50, 30, "queue.purge")
        self.queue: str = queue
        self.nowait: bool = nowait

    @staticmethod
    def read(reader: ArgumentReader) -> "QueuePurge":
        reader.short()
        queue = reader.text()
        bits = reader.bits()
        return QueuePurge(queue, bits & 1 != 0)

    def write(self, out: BytesWriter) -> None:
        write_short(out, 0)
        write_shortstr(out, self.queue)
        out.append(1 if self.nowait else 0)


@final
class QueuePurgeOk(Method):
    """So many were dropped."""

    def __init__(self, message_count: int = 0) -> None:
        super().__init__(50, 31, "queue.purge-ok")
        self.message_count: int = message_count

    @staticmethod
    def read(reader: ArgumentReader) -> "QueuePurgeOk":
        return QueuePurgeOk(reader.long())

    def write(self, out: BytesWriter) -> None:
        write_long(out, self.message_count)


@final
class QueueDelete(Method):
    """Delete a queue."""

    def __init__(self, queue: str, if_unused: bool = False, if_empty: bool = False, nowait: bool = False) -> None:
        super().__init__(50, 40, "queue.delete")
        self.queue: str = queue
        self.if_unused: bool = if_unused
        self.if_empty: bool = if_empty
        self.nowait: bool = nowait

    @staticmethod
    def read(reader: ArgumentReader) -> "QueueDelete":
        reader.short()
        queue = reader.text()
        bits = reader.bits()
        return QueueDelete(queue, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)

    def write(self, out: BytesWriter) -> None:
        write_short(out, 0)
        write_shortstr(out, self.queue)
        out.append(flag_octet(self.if_unused, self.if_empty, self.nowait))


@final
class QueueDeleteOk(Method):
    """The queue is gone, and so many messages with it."""

    def __init__(self, message_count: int = 0) -> None:
        super().__init__(50, 41, "queue.delete-ok")
        self.message_count: int = message_count

    @staticmethod
    def read(reader: ArgumentReader) -> "QueueDeleteOk":
        return QueueDeleteOk(reader.long())

    def write(self, out: BytesWriter) -> None:
        write_long(out, self.message_count)


@final
class QueueUnbind(Method):
    """End a route to a queue; this one alone has no nowait."""

    def __init__(self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None) -> None:
        super().__init__(50, 50, "queue.unbind")
        self.queue: str = queue
        self.exchange: str = exchange
        self.routing_key: str = routing_key
        self.arguments: Table = {} if arguments is None else arguments

    @staticmethod
    def read(reader: ArgumentReader) -> "QueueUnbind":
        reader.short()
        queue = reader.text()
        exchange = reader.text()
        routing_key = reader.text()
        arguments = reader.table()
        return QueueUnbind(queue, exchange, routing_key, arguments)

    def write(self, out: BytesWriter) -> None:
        write_short(out, 0)
        write_shortstr(out, self.queue)
        write_shortstr(out, self.exchange)
        write_shortstr(out, self.routing_key)
        write_table(out, self.arguments)


@final
class QueueUnbindOk(Method):
    """The binding is gone."""

    def __init__(self) -> None:
        super().__init__(50, 51, "queue.unbind-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "QueueUnbindOk":
        return QueueUnbindOk()

    def write(self, out: BytesWriter) -> None:
        pass


@final
class ExchangeDeclare(Method):
    """Create an exchange, or check that it is there."""

    def __init__(
        self,
        exchange: str,
        type: str = "direct",
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        nowait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        super().__init__(40, 10, "exchange.declare")
        self.exchange: str = exchange
        self.type: str = type
        self.passive: bool = passive
        self.durable: bool = durable
        self.auto_delete: bool = auto_delete
        self.internal: bool = internal
        self.nowait: bool = nowait
        self.arguments: Table = {} if arguments is None else arguments

    @staticmethod
    def read(reader: ArgumentReader) -> "ExchangeDeclare":
        reader.short()
        exchange = reader.text()
        type = reader.text()
        bits = reader.bits()
        arguments = reader.table()
        return ExchangeDeclare(
            exchange, type, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, bits & 8 != 0, bits & 16 != 0, arguments
        )

    def write(self, out: BytesWriter) -> None:
        write_short(out, 0)
        write_shortstr(out, self.exchange)
        write_shortstr(out, self.type)
        out.append(flag_octet(self.passive, self.durable, self.auto_delete, self.internal, self.nowait))
        write_table(out, self.arguments)


@final
class ExchangeDeclareOk(Method):
    """The exchange is there."""

    def __init__(self) -> None:
        super().__init__(40, 11, "exchange.declare-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "ExchangeDeclareOk":
        return ExchangeDeclareOk()

    def write(self, out: BytesWriter) -> None:
        pass


@final
class ExchangeDelete(Method):
    """Delete an exchange."""

    def __init__(self, exchange: str, if_unused: bool = False, nowait: bool = False) -> None:
        super().__init__(40, 20, "exchange.delete")
        self.exchange: str = exchange
        self.if_unused: bool = if_unused
        self.nowait: bool = nowait

    @staticmethod
    def read(reader: ArgumentReader) -> "ExchangeDelete":
        reader.short()
        exchange = reader.text()
        bits = reader.bits()
        return ExchangeDelete(exchange, bits & 1 != 0, bits & 2 != 0)

    def write(self, out: BytesWriter) -> None:
        write_short(out, 0)
        write_shortstr(out, self.exchange)
        out.append(flag_octet(self.if_unused, self.nowait))


@final
class ExchangeDeleteOk(Method):
    """The exchange is gone."""

    def __init__(self) -> None:
        super().__init__(40, 21, "exchange.delete-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "ExchangeDeleteOk":
        return ExchangeDeleteOk()

    def write(self, out: BytesWriter) -> None:
        pass


@final
class ExchangeBind(Method):
    """Route from one exchange to another."""

    def __init__(
        self, destination: str, source: str, routing_key: str = "", nowait: bool = False, arguments: Table | None = None
    ) -> None:
        super().__init__(40, 30, "exchange.bind")
        self.destination: str = destination
        self.source: str = source
        self.routing_key: str = routing_key
        self.nowait: bool = nowait
        self.arguments: Table = {} if arguments is None else arguments

    @staticmethod
    def read(reader: ArgumentReader) -> "ExchangeBind":
        reader.short()
        destination = reader.text()
        source = reader.text()
        routing_key = reader.text()
        bits = reader.bits()
        arguments = reader.table()
        return ExchangeBind(destination, source, routing_key, bits & 1 != 0, arguments)

    def write(self, out: BytesWriter) -> None:
        write_short(out, 0)
        write_shortstr(out, self.destination)
        write_shortstr(out, self.source)
        write_shortstr(out, self.routing_key)
        out.append(1 if self.nowait else 0)
        write_table(out, self.arguments)


@final
class ExchangeBindOk(Method):
    """The binding is there."""

    def __init__(self) -> None:
        super().__init__(40, 31, "exchange.bind-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "ExchangeBindOk":
        return ExchangeBindOk()

    def write(self, out: BytesWriter) -> None:
        pass


@final
class ExchangeUnbind(Method):
    """End such a route."""

    def __init__(
        self, destination: str, source: str, routing_key: str = "", nowait: bool = False, arguments: Table | None = None
    ) -> None:
        super().__init__(40, 40, "exchange.unbind")
        self.destination: str = destination
        self.source: str = source
        self.routing_key: str = routing_key
        self.nowait: bool = nowait
        self.arguments: Table = {} if arguments is None else arguments

    @staticmethod
    def read(reader: ArgumentReader) -> "ExchangeUnbind":
        reader.short()
        destination = reader.text()
        source = reader.text()
        routing_key = reader.text()
        bits = reader.bits()
        arguments = reader.table()
        return ExchangeUnbind(destination, source, routing_key, bits & 1 != 0, arguments)

    def write(self, out: BytesWriter) -> None:
        write_short(out, 0)
        write_shortstr(out, self.destination)
        write_shortstr(out, self.source)
        write_shortstr(out, self.routing_key)
        out.append(1 if self.nowait else 0)
        write_table(out, self.arguments)


@final
class ExchangeUnbindOk(Method):
    """The binding is gone. Its id breaks the pattern of all others."""

    def __init__(self) -> None:
        super().__init__(40, 51, "exchange.unbind-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "ExchangeUnbindOk":
        return ExchangeUnbindOk()

    def write(self, out: BytesWriter) -> None:
        pass
