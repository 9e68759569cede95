"""A tap: whether a bridge takes anything from its source at the moment.

Not here: who turns it (a federated queue takes from upstream only while it has consumers that wait).
"""

import asyncio


class Tap:
    """Open unless it was shut. Who shuts it has what is on the way carried still."""

    def __init__(self, is_open: bool = True) -> None:
        self._is_open = is_open
        self._turned = asyncio.Event()

    @property
    def is_open(self) -> bool:
        return self._is_open

    def turn(self, is_open: bool) -> None:
        if self._is_open != is_open:
            self._is_open = is_open
            self._turned.set()

    async def turned(self) -> None:
        """Returns when it was turned since this returned last."""
        await self._turned.wait()
        self._turned.clear()
