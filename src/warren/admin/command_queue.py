"""Where commands are handed in and their answers waited for.

A command goes into the node's next turn; its answer comes back as the effect `Answered`, with the same ticket, when
what was changed is on disk. Whoever asked may have gone by then, and nobody minds.

Not here: what a command is (`broker.model.events`), who may give it, how it is carried out (`broker.commands.control`).
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

from warren.broker.model.effects import CompleteCommand, Effect
from warren.broker.model.events import Command, CommandReceived, Event
from warren.errors import Refused


class CommandQueue:
    """The door between the operators' shell and the core."""

    def __init__(self, loop: asyncio.AbstractEventLoop, add: Callable[[Event], None]) -> None:
        self._loop = loop
        self._add = add
        self._tickets = count(1)
        self._waiting: dict[int, asyncio.Future[object]] = {}

    async def carry_out(self, command: Command) -> object:
        """The command's result, once it is safe; `Refused` if it was not carried out."""
        ticket = next(self._tickets)
        answer: asyncio.Future[object] = self._loop.create_future()
        self._waiting[ticket] = answer
        self._add(CommandReceived(ticket, command))
        try:
            return await answer
        finally:
            del self._waiting[ticket]

    def orders(self) -> dict[type[Effect], Callable[[Any], None]]:
        """The effects it carries out."""
        return {CompleteCommand: self.answered}

    def answered(self, effect: CompleteCommand) -> None:
        """Carries the effect out."""
        answer = self._waiting.get(effect.ticket)
        if answer is None or answer.done():
            return
        if effect.refusal:
            answer.set_exception(Refused(effect.refusal, effect.reason, effect.at))
        else:
            answer.set_result(effect.result)
