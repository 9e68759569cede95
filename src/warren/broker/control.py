"""An operator's commands: checked, carried out, and answered when what they changed is safe.

Each kind of command has a handler. A handler checks first and changes nothing by that; what was found good it can
carry out without failing. So several commands that belong together are checked one after another, each against what
there is and what those before it will have made (`Planned`), and are carried out only if all of them are good: in one
turn, so in one batch, which the disk has as a whole or not at all.

Not here: the commands (`model.commands`), who may give them (`admin`), what they do (their handlers).
"""

from abc import ABC, abstractmethod
from typing import final

from warren.errors import InvariantBroken, Refused
from warren.model.commands import Command, Together
from warren.model.effects import Answered
from warren.model.events import Commanded
from warren.model.turn import FlushWaiter, Turn
from warren.routing.exchange import Matcher
from warren.store.journal import Journal


@final
class Planned:
    """What commands that were checked, and not carried out yet, will have made."""

    def __init__(self) -> None:
        self.vhosts: dict[str, None] = {}
        self.users: dict[str, None] = {}
        # of exchanges and queues: virtual host and name, and how the exchange will route
        self.exchanges: dict[tuple[str, str], Matcher] = {}
        self.queues: dict[tuple[str, str], None] = {}


class CommandHandler(ABC):
    """Knows some kinds of commands."""

    @abstractmethod
    def kinds(self) -> list[type[Command]]:
        """The commands it knows."""

    @abstractmethod
    def check(self, command: Command, planned: Planned) -> None:
        """Raise `Refused` if it cannot be carried out, else add to what is planned; changes nothing."""

    @abstractmethod
    def carry_out(self, command: Command) -> object:
        """Do what was found good; the answer, if there is one."""


class DeferringHandler(ABC):
    """Knows commands that change nothing and whose answer may take a while."""

    @abstractmethod
    def kinds(self) -> list[type[Command]]:
        """The commands it knows."""

    @abstractmethod
    def begin(self, ticket: int, command: Command) -> None:
        """`Answered` with this ticket follows, in this turn or later."""


@final
class Control:
    """Where commands come in."""

    def __init__(self, turn: Turn) -> None:
        self.journal: Journal | None = None
        self._turn: Turn = turn
        self._handlers: dict[type[Command], CommandHandler] = {}
        self._deferring: dict[type[Command], DeferringHandler] = {}

    def add(self, handler: CommandHandler) -> None:
        for kind in handler.kinds():
            self._handlers[kind] = handler

    def add_deferring(self, handler: DeferringHandler) -> None:
        for kind in handler.kinds():
            self._deferring[kind] = handler

    def take(self, event: Commanded) -> None:
        """Carry a command out; its answer follows in this turn, or when the turn's batch is on disk."""
        deferring = self._deferring.get(type(event.command))
        if deferring is not None:
            deferring.begin(event.ticket, event.command)
            return
        try:
            self._check(event.command, Planned())
        except Refused as refusal:
            self._turn.effects.append(Answered(event.ticket, None, refusal.kind, refusal.reason, refusal.at))
            return
        answer = Answered(event.ticket, self._carry_out(event.command))
        if self.journal is not None and self.journal.metadata_pending():
            self._turn.await_flush(PendingAnswer(answer, self._turn))
        else:
            self._turn.effects.append(answer)

    def carry_out(self, command: Command) -> object:
        """The same, for the node itself: what a client or a timer brings about. `Refused` if it cannot be done."""
        self._check(command, Planned())
        return self._carry_out(command)

    def _check(self, command: Command, planned: Planned) -> None:
        if isinstance(command, Together):
            self._check_all(command.commands, planned)
            return
        self._handler(command).check(command, planned)

    def _check_all(self, commands: list[Command], planned: Planned) -> None:
        for at, command in enumerate(commands):
            try:
                self._check(command, planned)
            except Refused as refusal:
                raise Refused(refusal.kind, refusal.reason, at) from refusal

    def _carry_out(self, command: Command) -> object:
        if isinstance(command, Together):
            return [self._carry_out(one) for one in command.commands]
        return self._handler(command).carry_out(command)

    def _handler(self, command: Command) -> CommandHandler:
        handler = self._handlers.get(type(command))
        if handler is None:
            raise InvariantBroken(f"no handler knows the command {type(command).__name__}")
        return handler


@final
class PendingAnswer(FlushWaiter):
    """An answer that waits for the disk."""

    def __init__(self, answer: Answered, turn: Turn) -> None:
        self._answer: Answered = answer
        self._turn: Turn = turn

    def flushed(self) -> None:
        self._turn.effects.append(self._answer)
