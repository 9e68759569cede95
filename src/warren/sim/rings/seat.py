"""Where a pretend node's clients publish: numbers what they send, and sends again what a new master has not got.

Not here: the other end (`sim.rings.mastery`).
"""

from typing import TYPE_CHECKING

from warren.sim.rings.letters import ATTACH, HELD, PUBLISH, Letter

if TYPE_CHECKING:
    from warren.sim.rings.member import Member


class Seat:
    """One node's, in one run of it."""

    def __init__(self, member: "Member") -> None:
        self.count = 0
        # by count: level, and whether it is persistent
        self.unconfirmed: dict[int, tuple[int, bool]] = {}
        self.attempt = 0
        self.epoch = 0
        self.open = False
        self.detached = True
        self._member = member

    def publish(self, level: int, persistent: bool) -> None:
        self.count += 1
        self.unconfirmed[self.count] = level, persistent
        if self.open:
            self._send(self.count)

    def attach(self, epoch: int) -> None:
        """There is a way to the master of this epoch."""
        self.attempt += 1
        self.epoch = epoch
        self.open = False
        self.detached = False
        member = self._member
        member.send(member.ring.master, Letter(ATTACH, epoch, self.attempt, member.incarnation))

    def detach(self) -> None:
        self.attempt += 1
        self.open = False
        self.detached = True

    def heard(self, letter: Letter) -> None:
        if letter.attempt != self.attempt or letter.epoch != self.epoch:
            return
        if letter.kind == HELD:
            self.open = True
            for count in self.unconfirmed:
                if count > letter.number:
                    self._send(count)
        else:
            for count in [each for each in self.unconfirmed if each <= letter.number]:
                del self.unconfirmed[count]
                self._member.world.promises.told(self._payload(count))

    def _send(self, count: int) -> None:
        member = self._member
        level, persistent = self.unconfirmed[count]
        what = (member.incarnation, level, persistent, self._payload(count))
        member.send(member.ring.master, Letter(PUBLISH, self.epoch, self.attempt, count, what=what))

    def _payload(self, count: int) -> bytes:
        return f"{self._member.name}/{self._member.incarnation}/{count}".encode()

    def picture(self) -> object:
        """All of it, to be compared."""
        return (self.count, tuple(self.unconfirmed.items()), self.attempt, self.epoch, self.open)
