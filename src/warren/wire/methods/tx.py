"""The methods of class tx: publishes and acks in batches.

Not here: what a transaction holds (`session.transactions`).
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
