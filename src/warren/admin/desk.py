"""Where commands are handed in and their answers waited for.

A command goes into the node's next turn; its answer comes back as the effect `Answered`, with the same ticket, when
what was changed is on disk. Whoever asked may have gone by then, and nobody minds.

Not here: what a command is (`model.commands`), who may give it, how it is carried out (`broker.control`).
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

from warren.errors import Refused
from warren.model.commands import Command
from warren.model.effects import Answered, Effect
from warren.model.events import Commanded, Event


class Desk:
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
        self._add(Commanded(ticket, command))
        try:
            return await answer
        finally:
            del self._waiting[ticket]

    def orders(self) -> dict[type[Effect], Callable[[Any], None]]:
        """The effects it carries out."""
        return {Answered: self.answered}

    def answered(self, effect: Answered) -> None:
        """Carries the effect out."""
        answer = self._waiting.get(effect.ticket)
        if answer is None or answer.done():
            return
        if effect.refusal:
            answer.set_exception(Refused(effect.refusal, effect.reason, effect.at))
        else:
            answer.set_result(effect.result)
