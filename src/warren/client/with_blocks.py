"""Context managers that close an object of the client at the end of a `with` block."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class ClosedAtEnd(ABC):
    """`with` closes it."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class AsyncClosedAtEnd(ABC):
    """`async with` closes it."""

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
