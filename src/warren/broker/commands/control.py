"""The control: checks, proposes, commits and answers the commands of operators.

Each kind of command has a handler. The handler first checks a command and then writes its changes into a transaction;
neither changes the state. So the commands of a batch are checked one after another, each against the current state and
the objects that earlier ones will make (`ProposedNames`), and enter one transaction only if all are accepted. On a node
alone the transaction is applied in one turn and written in one batch, completely or not at all. In a cluster a large
transaction may be applied in part, and a refusal then says how much was applied.

::

    CommandReceived ──► check ──► add changes ──► commit ──► follow up ──► CompleteCommand, when on disk
                          ▲                         │
                          └──────── outdated ───────┘   failed: CompleteCommand, unavailable

On a node alone a transaction commits at once. Otherwise the command waits, and is checked and proposed again if the
definitions it relied on changed.

Not here: the requests (`broker.commands.requests`), permissions of operators (`admin`), transactions
(`broker.metadata.backend`).
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
from warren.errors import CommandRefused, InvariantBroken

ATTEMPTS_MAX: Final = 20
"""A command is refused after so many outdated transactions."""

UNAVAILABLE: Final = "unavailable"
PARTLY_DONE: Final = "changes were made before that, and stay"


@final
class ProposedNames:
    """Objects that checked commands of the same batch will make."""

    def __init__(self) -> None:
        self.vhosts: dict[str, None] = {}
        self.users: dict[str, None] = {}
        # by virtual host and name; of an exchange its matcher
        self.exchanges: dict[tuple[str, str], Matcher] = {}
        self.queues: dict[tuple[str, str], None] = {}


@final
class CommandCheck(Command):
    """Commands that are only checked, against the state and the objects that commands checked before will make.

    A batch that takes longer than a turn may is checked as several of these before its first part is carried out.
    """

    def __init__(self, commands: list[Command], proposed: ProposedNames) -> None:
        self.commands: list[Command] = commands
        self.proposed: ProposedNames = proposed


class CommandHandler:
    """Handles some kinds of commands."""

    @abstractmethod
    def kinds(self) -> list[type[Command]]:
        """The commands it handles."""

    @abstractmethod
    def check(self, command: Command, proposed: ProposedNames) -> None:
        """Raise `CommandRefused` if the command is invalid, else add to `proposed`; changes nothing else."""

    @abstractmethod
    def add_changes(self, command: Command, transaction: MetadataTransaction) -> object:
        """Add the changes to a transaction, which may have those of earlier commands; changes nothing else.

        The result is the answer once the transaction is committed.
        """

    def follow_up(self, command: Command) -> None:
        """The transaction is committed: make changes of this node that are not metadata. Most commands have none.

        The state may have changed since the check.
        """
        return


class DeferringHandler:
    """Handles commands that change nothing and may be answered later."""

    @abstractmethod
    def kinds(self) -> list[type[Command]]:
        """The commands it handles."""

    @abstractmethod
    def begin(self, ticket: int, command: Command) -> None:
        """`CompleteCommand` with this ticket follows, in this turn or later."""


@final
class Control:
    """Executes the commands of a node."""

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

    def handle(self, event: CommandReceived) -> None:
        """Execute a command. Its answer follows in this turn, or when its changes are committed and on disk."""
        deferring = self._deferring.get(type(event.command))
        if deferring is not None:
            deferring.begin(event.ticket, event.command)
            return
        self._try(PendingCommand(self, event.command, event.ticket))

    # -- one command, from check to answer

    def _try(self, pending: "PendingCommand") -> None:
        transaction = MetadataTransaction()
        try:
            self._check(pending.command, ProposedNames())
            pending.result = self._add_changes(pending.command, transaction)
        except CommandRefused as refusal:
            self._refuse(pending, refusal)
            return
        pending.set_transaction(transaction)
        if not transaction.changes or self.backend.submit(transaction, pending):
            self.committed(pending)

    def committed(self, pending: "PendingCommand") -> None:
        """The transaction is committed."""
        self._follow_up(pending.command)
        answer = CompleteCommand(pending.ticket, pending.result)
        if self.journal is not None and self.journal.metadata_pending():
            self._turn.await_flush(PendingAnswer(answer, self._turn))
        else:
            self._turn.effects.append(answer)

    def outdated(self, pending: "PendingCommand") -> None:
        """A definition that the transaction relied on changed."""
        if pending.attempts < ATTEMPTS_MAX:
            self._try(pending)
        else:
            self.failed(pending, f"what the command relies on changed {ATTEMPTS_MAX} times before it was committed")

    def failed(self, pending: "PendingCommand", reason: str) -> None:
        """The outcome of the transaction is unknown."""
        self._refuse(pending, CommandRefused(UNAVAILABLE, reason))

    def _refuse(self, pending: "PendingCommand", refusal: CommandRefused) -> None:
        reason = refusal.reason + pending.partial_changes()
        self._turn.effects.append(CompleteCommand(pending.ticket, None, refusal.kind, reason, refusal.at))

    # -- batches of commands

    def _check(self, command: Command, proposed: ProposedNames) -> None:
        if isinstance(command, CommandBatch):
            self._check_all(command.commands, proposed)
            return
        if isinstance(command, CommandCheck):
            self._check_all(command.commands, command.proposed)
            return
        self._handler(command).check(command, proposed)

    def _check_all(self, commands: list[Command], proposed: ProposedNames) -> None:
        for at, command in enumerate(commands):
            try:
                self._check(command, proposed)
            except CommandRefused as refusal:
                raise CommandRefused(refusal.kind, refusal.reason, at) from refusal

    def _add_changes(self, command: Command, transaction: MetadataTransaction) -> object:
        if isinstance(command, CommandBatch):
            return [self._add_changes(one, transaction) for one in command.commands]
        if isinstance(command, CommandCheck):
            return None
        return self._handler(command).add_changes(command, transaction)

    def _follow_up(self, command: Command) -> None:
        if isinstance(command, CommandBatch):
            for one in command.commands:
                self._follow_up(one)
            return
        if isinstance(command, CommandCheck):
            return
        self._handler(command).follow_up(command)

    def _handler(self, command: Command) -> CommandHandler:
        handler = self._handlers.get(type(command))
        if handler is None:
            raise InvariantBroken(f"no handler knows the command {type(command).__name__}")
        return handler


@final
class PendingCommand(TransactionWaiter):
    """A checked command while its transaction is not decided."""

    def __init__(self, control: Control, command: Command, ticket: int) -> None:
        self.command: Command = command
        self.ticket: int = ticket
        # the answer to the last transaction, and how many transactions there were
        self.result: object = None
        self.attempts: int = 0
        self._control: Control = control
        self._transaction: MetadataTransaction = MetadataTransaction()
        # how many changes of earlier transactions were applied at least
        self._made: int = 0

    def set_transaction(self, transaction: MetadataTransaction) -> None:
        self.attempts += 1
        self._made = max(self._made, self._transaction.made)
        self._transaction = transaction

    def partial_changes(self) -> str:
        """How many changes were applied, to be added to a refusal."""
        made = max(self._made, self._transaction.made)
        return f"; {made} of {len(self._transaction.changes)} {PARTLY_DONE}" if made else ""

    def committed(self) -> None:
        self._control.committed(self)

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
