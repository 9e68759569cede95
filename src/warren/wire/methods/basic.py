"""The methods of class basic that manage consumers: prefetch, subscribing, cancelling.

Not here: those with content (`basic_content`), those that settle deliveries (`basic_settlement`).
"""

from typing import final

from librt.strings import BytesWriter

from warren.wire.methods.method import Method, flag_octet
from warren.wire.values import ArgumentReader, Table, write_long, write_short, write_shortstr, write_table


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
