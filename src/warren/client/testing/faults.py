"""What a memory broker does wrong, and when: each fault that may happen between a program and its broker, on demand.

A fault that counts is used up by the messages it happens to; `block` and `delay` last until they are ended.

Not here: faults of real connections (`testing.proxy`).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warren.client.testing.broker import MemoryBroker


class Faults:
    """A broker's `faults`."""

    def __init__(self, broker: "MemoryBroker") -> None:
        self.is_blocked = False
        self.delay_s = 0.0
        self._broker = broker
        self._refused = 0
        self._published_twice = 0
        self._lost_acks = 0
        # how many publishes until the connection is lost, and whether the broker has those that it is lost on
        self._until_lost: int | None = None
        self._arrives = True

    def refuse(self, publishes: int) -> None:
        """The next publishes are refused: `PublishFailed`, and no queue has them."""
        self._refused = publishes

    def publish_twice(self, publishes: int) -> None:
        """The next publishes arrive twice, as those of a publisher do that sends again what was not confirmed."""
        self._published_twice = publishes

    def deliver_twice(self, messages: int) -> None:
        """The next acks are lost on the way: what they settle is delivered again, as redelivered."""
        self._lost_acks = messages

    def lose_connection(self, after: int = 0, *, arrives: bool = True) -> None:
        """Lose a connection with the next publish, or after some more.

        That publish and what comes with it end as `ConnectionLost`, outcome unknown: whether it `arrives` only the test
        knows. What the connection's consumers had not settled comes again.
        """
        self._until_lost, self._arrives = after, arrives

    def lose_connections(self) -> None:
        """Lose every connection at once: what is in consumers' hands comes again, and acks of it mean nothing."""
        with self._broker.lock:
            for transport in list(self._broker.transports):
                transport.lose()

    def delay(self, seconds: float) -> None:
        """Each confirm takes so long from now on; 0 for none."""
        self.delay_s = seconds

    def block(self) -> None:
        """Take no publishes, as a broker does that is short of memory; they wait."""
        self.is_blocked = True

    def unblock(self) -> None:
        with self._broker.lock:
            self.is_blocked = False
            for transport in self._broker.transports:
                transport.wake()

    # for transports

    def loses_this_publish(self) -> bool:
        """The publish on which the connection is lost, if it is this one."""
        if self._until_lost is None:
            return False
        self._until_lost -= 1
        if self._until_lost >= 0:
            return False
        self._until_lost = None
        return True

    @property
    def lost_arrives(self) -> bool:
        return self._arrives

    def refuses_this_publish(self) -> bool:
        self._refused, happens = _used(self._refused)
        return happens

    def repeats_this_publish(self) -> bool:
        self._published_twice, happens = _used(self._published_twice)
        return happens

    def loses_this_ack(self) -> bool:
        self._lost_acks, happens = _used(self._lost_acks)
        return happens


def _used(left: int) -> tuple[int, bool]:
    return max(left - 1, 0), left > 0
