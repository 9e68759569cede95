"""Messages that are sent without being waited for, of which at most so many are undecided.

    submit ──▶ gathered ──▶ one Transport.publish for each step of the loop ──▶ futures

What is submitted in one step of the loop is published together, in the order in which it was submitted; in parts, so
that a window of which a part is decided is filled again while the rest is on its way.

A part of which something failed is logged in one line, because a program may not look at all of its futures.

Invariants: a place in the window is taken before a message is gathered, and given back when it is decided, whatever
that decision is; each future is decided exactly once.

Not here: what a message is (`template.preparing`).
"""

import asyncio
import logging
from collections.abc import Sequence

from warren.client.errors import ClientError
from warren.client.template.preparing import message_id_of
from warren.client.transport import Outgoing, Transport

PARTS = 4
LOGGER = logging.getLogger("warren.client.template")

Submitted = tuple[Outgoing, "asyncio.Future[str]"]


class Window:
    """One for each template."""

    def __init__(self, transport: Transport, size: int, timeout_s: float | None) -> None:
        if size < 1:
            raise ValueError("a window has room for one message at least")
        self._transport = transport
        self._timeout_s = timeout_s
        self._part_size = max(1, size // PARTS)
        self._room = asyncio.Semaphore(size)
        self._gathered: list[Submitted] = []
        # the loop itself keeps no task alive
        self._publishing: set[asyncio.Task[None]] = set()

    async def submit(self, outgoing: Outgoing) -> "asyncio.Future[str]":
        """Waits for room; the future has the message's id when the broker has it, or the error."""
        await self._room.acquire()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()
        if not self._gathered:
            loop.call_soon(self._publish_gathered)
        self._gathered.append((outgoing, future))
        return future

    async def drain(self) -> None:
        """Returns when nothing is undecided; what failed is told by its future."""
        self._publish_gathered()
        while self._publishing:
            await asyncio.wait(self._publishing)

    def _publish_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        for start in range(0, len(gathered), self._part_size):
            task = asyncio.get_running_loop().create_task(self._publish(gathered[start : start + self._part_size]))
            self._publishing.add(task)
            task.add_done_callback(self._publishing.discard)

    async def _publish(self, part: list[Submitted]) -> None:
        decisions: Sequence[BaseException | None]
        try:
            decisions = await self._transport.publish([outgoing for outgoing, _ in part], self._timeout_s)
        except ClientError as error:
            decisions = [error] * len(part)
        except BaseException as error:
            _decide_all(part, [error] * len(part))
            raise
        finally:
            for _ in part:
                self._room.release()
        _decide_all(part, decisions)
        _log_failures(part, decisions)


def _decide_all(part: list[Submitted], decisions: "Sequence[BaseException | None]") -> None:
    for (outgoing, future), error in zip(part, decisions, strict=True):
        if error is not None:
            _fail(future, error)
        elif not future.done():
            future.set_result(message_id_of(outgoing))


def _log_failures(part: list[Submitted], decisions: "Sequence[BaseException | None]") -> None:
    failures = [(at, error) for at, error in enumerate(decisions) if error is not None]
    if failures:
        at, error = failures[0]
        facts = {"failed": len(failures), "of": len(part), "first_id": message_id_of(part[at][0]), "error": str(error)}
        LOGGER.warning("submitted messages failed, the first: %s", error, extra=facts)


def _fail(future: "asyncio.Future[str]", error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, asyncio.CancelledError):
        future.cancel()
    else:
        future.set_exception(error)
