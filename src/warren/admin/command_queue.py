"""Submits commands to the broker and waits for their results.

A command is part of the node's next turn. Its result comes as the effect `CompleteCommand` with the same ticket, once
the change is on disk. A result is dropped if the caller has gone.

Not here: commands (`broker.model.events`), carrying them out (`broker.commands.control`).
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

from warren.broker.model.effects import CompleteCommand, Effect
from warren.broker.model.events import Command, CommandReceived, Event
from warren.errors import CommandRefused


class CommandQueue:
    """The commands in progress."""

    def __init__(self, loop: asyncio.AbstractEventLoop, add: Callable[[Event], None]) -> None:
        self._loop = loop
        self._add = add
        self._tickets = count(1)
        self._waiting: dict[int, asyncio.Future[object]] = {}
        # held by an import of definitions, which submits many batches
        self.one_import = asyncio.Lock()

    async def carry_out(self, command: Command) -> object:
        """The command's result, once the change is on disk; `CommandRefused` if the broker refused the command."""
        ticket = next(self._tickets)
        answer: asyncio.Future[object] = self._loop.create_future()
        self._waiting[ticket] = answer
        self._add(CommandReceived(ticket, command))
        try:
            return await answer
        finally:
            del self._waiting[ticket]

    def orders(self) -> dict[type[Effect], Callable[[Any], None]]:
        """The effects that it handles."""
        return {CompleteCommand: self.answered}

    def answered(self, effect: CompleteCommand) -> None:
        """Handle the effect."""
        answer = self._waiting.get(effect.ticket)
        if answer is None or answer.done():
            return
        if effect.refusal:
            answer.set_exception(CommandRefused(effect.refusal, effect.reason, effect.at))
        else:
            answer.set_result(effect.result)
