"""How long a connection waits: for the handshake, for signs of life, for the answer to a close.

One timer: until the connection is open, and once it ends, it fires when patience is over; in between it beats, every
half heartbeat, to keep our side alive and to give up on a client that was silent for two.

Not here: what is done when patience is over (`session.connection`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.model.turn import Timed, Timer

if TYPE_CHECKING:
    from warren.session.connection import Connection


@final
class Patience(Timed):
    """One connection's timer."""

    def __init__(self, connection: "Connection", delay_ms: i64) -> None:
        self.heartbeat_ms: i64 = 0
        self.received_at_ms: i64 = connection.turn.now_ms
        self.sent_at_ms: i64 = connection.turn.now_ms
        self._connection: Connection = connection
        self._beating: bool = False
        self._timer: Timer = connection.turn.set_timer(connection.turn.now_ms + delay_ms, self)

    def wait(self, delay_ms: i64) -> None:
        """Lose patience after so long."""
        self._beating = False
        self._arm(delay_ms)

    def beat(self) -> None:
        """Watch for signs of life, if that was agreed upon."""
        self._beating = True
        if self.heartbeat_ms:
            self._arm(self.heartbeat_ms // 2)
        else:
            self.end()

    def end(self) -> None:
        self._connection.turn.cancel_timer(self._timer)

    def timer_fired(self) -> None:
        connection = self._connection
        if not self._beating:
            connection.lose_patience()
            return
        now_ms = connection.turn.now_ms
        silent_ms: i64 = now_ms - self.received_at_ms
        if silent_ms > 2 * self.heartbeat_ms and connection.reading:
            connection.note("warning", "connection.silent", {"silent_ms": int(silent_ms)})
            connection.hang_up()
            return
        if now_ms - self.sent_at_ms >= self.heartbeat_ms // 2:
            connection.send_heartbeat()
        self.beat()

    def _arm(self, delay_ms: i64) -> None:
        turn = self._connection.turn
        turn.cancel_timer(self._timer)
        self._timer = turn.set_timer(turn.now_ms + delay_ms, self)
