"""The methods of class tx: publishes and acks in batches.

Not here: what a transaction holds (`session.transactions`).

The methods of class confirm, RabbitMQ's extension: acks for publishers.

Not here: when a publish is confirmed (`broker.sessions.confirms`).
"""

from typing import final

from librt.strings import BytesWriter

from warren.wire.methods.method import Method
from warren.wire.values import ArgumentReader


@final
class TxSelect(Method):
    """From here on publishes and acks wait for a commit."""

    def __init__(self) -> None:
        super().__init__(90, 10, "tx.select")

    @staticmethod
    def read(reader: ArgumentReader) -> "TxSelect":
        return TxSelect()

    def write(self, out: BytesWriter) -> None:
        pass


@final
class TxSelectOk(Method):
    """They will."""

    def __init__(self) -> None:
        super().__init__(90, 11, "tx.select-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "TxSelectOk":
        return TxSelectOk()

    def write(self, out: BytesWriter) -> None:
        pass


@final
class TxCommit(Method):
    """Carry out what waited."""

    def __init__(self) -> None:
        super().__init__(90, 20, "tx.commit")

    @staticmethod
    def read(reader: ArgumentReader) -> "TxCommit":
        return TxCommit()

    def write(self, out: BytesWriter) -> None:
        pass


@final
class TxCommitOk(Method):
    """It was carried out."""

    def __init__(self) -> None:
        super().__init__(90, 21, "tx.commit-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "TxCommitOk":
        return TxCommitOk()

    def write(self, out: BytesWriter) -> None:
        pass


@final
class TxRollback(Method):
    """Forget what waited."""

    def __init__(self) -> None:
        super().__init__(90, 30, "tx.rollback")

    @staticmethod
    def read(reader: ArgumentReader) -> "TxRollback":
        return TxRollback()

    def write(self, out: BytesWriter) -> None:
        pass


@final
class TxRollbackOk(Method):
    """It is forgotten."""

    def __init__(self) -> None:
        super().__init__(90, 31, "tx.rollback-ok")

    @staticmethod
    def read(reader: ArgumentReader) -> "TxRollbackOk":
        return TxRollbackOk()

    def write(self, out: BytesWriter) -> None:
        pass


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
