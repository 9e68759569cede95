"""The methods of class exchange: declaring, deleting and binding exchanges.

Not here: what exchanges do (`routing`).
"""

from typing import final

from librt.strings import BytesWriter

from warren.wire.methods.method import Method, flag_octet
from warren.wire.values import ArgumentReader, Table, write_short, write_shortstr, write_table


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
