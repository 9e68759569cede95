"""Commands about connections.

Not here: closing a connection (`broker.sessions.connection`).
"""

from typing import final

from warren.broker.commands.control import CommandHandler, ProposedNames
from warren.broker.commands.requests import ForceCloseConnection
from warren.broker.metadata.transaction import MetadataTransaction
from warren.broker.model.events import Command
from warren.broker.sessions.connection import RUNNING, Connection
from warren.errors import CONNECTION_FORCED, CommandRefused, ConnectionFault, InvariantBroken


@final
class ConnectionCommands(CommandHandler):
    """Checks and executes them without a transaction, since connections are not metadata."""

    def __init__(self, connections: dict[int, Connection]) -> None:
        self._connections: dict[int, Connection] = connections

    def kinds(self) -> list[type[Command]]:
        return [ForceCloseConnection]

    def check(self, command: Command, proposed: ProposedNames) -> None:
        if isinstance(command, ForceCloseConnection) and command.connection_id not in self._connections:
            raise CommandRefused("not_found", "Not Found")

    def add_changes(self, command: Command, transaction: MetadataTransaction) -> object:
        return None

    def follow_up(self, command: Command) -> None:
        if not isinstance(command, ForceCloseConnection):
            raise InvariantBroken(f"{type(command).__name__} is not about connections")
        connection = self._connections.get(command.connection_id)
        if connection is None:
            return
        if connection.state == RUNNING:
            connection.dismiss(ConnectionFault(CONNECTION_FORCED, command.reason), 0, 0)
        elif connection.state < RUNNING:
            # the handshake is not complete, so the client gets no connection.close
            connection.hang_up()
