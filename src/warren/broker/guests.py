"""The clients of a node, and the door they come in by.

The door is shut while the node stops, and while it is paused because it is cut off from others: whoever is in is told
why and leaves, whoever comes is sent away.

Not here: one client's conversation (`session.connection`), who may come in (`broker.broker`), sockets (`node`).
"""

from typing import final

from warren.errors import CONNECTION_FORCED, ConnectionFault
from warren.model.effects import CloseConnection
from warren.model.events import BytesReceived, ConnectionLost, ConnectionOpened, Event, WritesPaused, WritesResumed
from warren.session import input as session_input
from warren.session.connection import RUNNING, Connection
from warren.session.ports import NodePort


@final
class Guests:
    """Everybody who is connected."""

    def __init__(self, node: NodePort) -> None:
        self.connections: dict[int, Connection] = {}
        self._node: NodePort = node
        self._shut: bool = False

    def received(self, event: BytesReceived) -> None:
        connection = self.connections.get(event.connection_id)
        if connection is not None:
            session_input.receive(connection, event.data)

    def take(self, event: Event) -> bool:
        """Whether it was about a client."""
        if isinstance(event, ConnectionOpened):
            self._opened(event)
        elif isinstance(event, ConnectionLost):
            lost = self.connections.pop(event.connection_id, None)
            if lost is not None:
                lost.lost(event.reason)
        elif isinstance(event, WritesPaused):
            paused = self.connections.get(event.connection_id)
            if paused is not None:
                paused.writes_paused()
        elif isinstance(event, WritesResumed):
            resumed = self.connections.get(event.connection_id)
            if resumed is not None:
                resumed.writes_resumed()
        else:
            return False
        return True

    def shut_door(self, reason: str) -> None:
        """Tell every client; each hangs up when it answered, or when its patience ends."""
        self._shut = True
        farewell = ConnectionFault(CONNECTION_FORCED, f"broker forced connection closure with reason '{reason}'")
        for connection in list(self.connections.values()):
            if connection.state == RUNNING:
                connection.dismiss(farewell, 0, 0)
            else:
                connection.hang_up()

    def open_door(self) -> None:
        self._shut = False

    def _opened(self, event: ConnectionOpened) -> None:
        if self._shut:
            self._node.turn.effects.append(CloseConnection(event.connection_id))
        else:
            self.connections[event.connection_id] = Connection(event, self._node)
