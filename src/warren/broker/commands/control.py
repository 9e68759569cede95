"""An operator's commands: checked, planned, agreed upon, and answered when what they changed is safe.

Each kind of command has a handler. A handler checks first, then writes what was found good into a plan, and changes
nothing by either. So several commands that belong together are checked one after another, each against what there is
and what those before it will have made (`PlannedNames`), and go into one plan only if all of them are good. On a node
alone it comes about in one turn, so in one batch, which the disk has as a whole or not at all; in a cluster a large one
may come about in part, and whoever is refused the rest is told so.

::

    Commanded ──► check ──► plan ──► agree ──► follow up ──► Answered, once the disk has it
                    ▲                  │
                    └──── outdated ────┘   failed: Answered, unavailable

A node alone agrees at once. Else the command waits, and is checked and planned again if things it relied on moved.

Not here: the commands (`broker.model.events`), who may give them (`admin`), what they change (their handlers), who
agrees (`broker.metadata.backend`) and who makes the changes (`broker.metadata.backend`).
"""

from abc import abstractmethod
from typing import Final, final

from warren.broker.journal.journal import Journal
from warren.broker.metadata.backend import MetadataBackend
from warren.broker.metadata.transaction import MetadataTransaction, TransactionWaiter
from warren.broker.model.effects import CompleteCommand
from warren.broker.model.events import Command, CommandBatch, CommandReceived
from warren.broker.model.turn import FlushWaiter, Turn
from warren.broker.routing.exchanges import Matcher
from warren.errors import InvariantBroken, Refused

ATTEMPTS_MAX: Final = 20
"""After so many plans that were outdated before they were agreed upon, a command is given up."""

UNAVAILABLE: Final = "unavailable"
PARTLY_DONE: Final = "changes were made before that, and stay"


@final
class PlannedNames:
    """What commands that were checked, and not carried out yet, will have made."""

    def __init__(self) -> None:
        self.vhosts: dict[str, None] = {}
        self.users: dict[str, None] = {}
        # of exchanges and queues: virtual host and name, and how the exchange will route
        self.exchanges: dict[tuple[str, str], Matcher] = {}
        self.queues: dict[tuple[str, str], None] = {}


class CommandHandler:
    """Knows some kinds of commands."""

    @abstractmethod
    def kinds(self) -> list[type[Command]]:
        """The commands it knows."""

    @abstractmethod
    def check(self, command: Command, planned: PlannedNames) -> None:
        """Raise `Refused` if it cannot be carried out, else add to what is planned; changes nothing."""

    @abstractmethod
    def plan(self, command: Command, plan: MetadataTransaction) -> object:
        """Add what was found good to a plan, which commands before this one may have added to; changes nothing else.

        The answer once the plan has come about, if there is one.
        """

    def follow_up(self, command: Command) -> None:
        """The plan came about: do what concerns this node alone, and no definition tells of. For most that is nothing.

        Much may have changed since the command was checked.
        """
        return


class DeferringHandler:
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

    def __init__(self, turn: Turn, backend: MetadataBackend) -> None:
        self.journal: Journal | None = None
        self.backend: MetadataBackend = backend
        self._turn: Turn = turn
        self._handlers: dict[type[Command], CommandHandler] = {}
        self._deferring: dict[type[Command], DeferringHandler] = {}

    def add(self, handler: CommandHandler) -> None:
        for kind in handler.kinds():
            self._handlers[kind] = handler

    def add_deferring(self, handler: DeferringHandler) -> None:
        for kind in handler.kinds():
            self._deferring[kind] = handler

    def take(self, event: CommandReceived) -> None:
        """Carry a command out; its answer follows: in this turn, or when it is agreed upon and on disk."""
        deferring = self._deferring.get(type(event.command))
        if deferring is not None:
            deferring.begin(event.ticket, event.command)
            return
        self._try(PendingCommand(self, event.command, event.ticket))

    # -- one command, from its check to its answer

    def _try(self, pending: "PendingCommand") -> None:
        plan = MetadataTransaction()
        try:
            self._check(pending.command, PlannedNames())
            pending.result = self._plan(pending.command, plan)
        except Refused as refusal:
            self._refuse(pending, refusal)
            return
        pending.replan(plan)
        if not plan.changes or self.backend.submit(plan, pending):
            self.agreed(pending)

    def agreed(self, pending: "PendingCommand") -> None:
        """Its plan came about."""
        self._follow_up(pending.command)
        answer = CompleteCommand(pending.ticket, pending.result)
        if self.journal is not None and self.journal.metadata_pending():
            self._turn.await_flush(PendingAnswer(answer, self._turn))
        else:
            self._turn.effects.append(answer)

    def outdated(self, pending: "PendingCommand") -> None:
        """Its plan was made for what is no more."""
        if pending.plans < ATTEMPTS_MAX:
            self._try(pending)
        else:
            self.failed(pending, f"what the command relies on changed {ATTEMPTS_MAX} times before it was agreed upon")

    def failed(self, pending: "PendingCommand", reason: str) -> None:
        """It is not known whether its plan came about, or will."""
        self._refuse(pending, Refused(UNAVAILABLE, reason))

    def _refuse(self, pending: "PendingCommand", refusal: Refused) -> None:
        reason = refusal.reason + pending.partial_changes()
        self._turn.effects.append(CompleteCommand(pending.ticket, None, refusal.kind, reason, refusal.at))

    # -- commands that belong together, one by one

    def _check(self, command: Command, planned: PlannedNames) -> None:
        if isinstance(command, CommandBatch):
            self._check_all(command.commands, planned)
            return
        self._handler(command).check(command, planned)

    def _check_all(self, commands: list[Command], planned: PlannedNames) -> None:
        for at, command in enumerate(commands):
            try:
                self._check(command, planned)
            except Refused as refusal:
                raise Refused(refusal.kind, refusal.reason, at) from refusal

    def _plan(self, command: Command, plan: MetadataTransaction) -> object:
        if isinstance(command, CommandBatch):
            return [self._plan(one, plan) for one in command.commands]
        return self._handler(command).plan(command, plan)

    def _follow_up(self, command: Command) -> None:
        if isinstance(command, CommandBatch):
            for one in command.commands:
                self._follow_up(one)
            return
        self._handler(command).follow_up(command)

    def _handler(self, command: Command) -> CommandHandler:
        handler = self._handlers.get(type(command))
        if handler is None:
            raise InvariantBroken(f"no handler knows the command {type(command).__name__}")
        return handler


@final
class PendingCommand(TransactionWaiter):
    """A command that was found good, while it is not agreed upon."""

    def __init__(self, control: Control, command: Command, ticket: int) -> None:
        self.command: Command = command
        self.ticket: int = ticket
        # what the last plan would be answered with, and how many there were
        self.result: object = None
        self.plans: int = 0
        self._control: Control = control
        self._plan: MetadataTransaction = MetadataTransaction()
        # how much of it the plans before that have brought about at least
        self._made: int = 0

    def replan(self, plan: MetadataTransaction) -> None:
        self.plans += 1
        self._made = max(self._made, self._plan.made)
        self._plan = plan

    def partial_changes(self) -> str:
        """How much of it has come about all the same, to be added to a reason."""
        made = max(self._made, self._plan.made)
        return f"; {made} of {len(self._plan.changes)} {PARTLY_DONE}" if made else ""

    def agreed(self) -> None:
        self._control.agreed(self)

    def outdated(self) -> None:
        self._control.outdated(self)

    def failed(self, reason: str) -> None:
        self._control.failed(self, reason)


@final
class PendingAnswer(FlushWaiter):
    """An answer that waits for the disk."""

    def __init__(self, answer: CompleteCommand, turn: Turn) -> None:
        self._answer: CompleteCommand = answer
        self._turn: Turn = turn

    def flushed(self) -> None:
        self._turn.effects.append(self._answer)
