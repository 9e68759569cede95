"""The master of a pretend ring: the real `Master`, and a toy queue that lives by what it says.

A message is in the queue when its step is settled. It is handed out when a horizon at or above it is settled, too.
What is removed leaves the copy when that is settled, as it does at mirrors.

Not here: who is master (`sim.rings.member`), what newcomers lack (`sim.rings.newcomers`), what must hold
(`sim.rings.promises`).
"""

from typing import TYPE_CHECKING

from warren.mirroring.epochs import Epochs
from warren.mirroring.marks import Marks
from warren.mirroring.master import Downstream, Master, RingOwner
from warren.mirroring.mirror import JoinRequest, Mirror
from warren.mirroring.steps import LEND, OPEN, REMOVE, RETURNED, STORE, Step
from warren.model.copies import Span
from warren.model.rings import Ring
from warren.sim.rings import letters
from warren.sim.rings.letters import Letter
from warren.sim.rings.newcomers import Newcomer
from warren.sim.rings.sayings import Saying, sayings
from warren.sim.rings.toy_copy import spans_of

if TYPE_CHECKING:
    from warren.sim.rings.member import Member

EPOCH_SHIFT = 40
"""Each epoch has its own positions: so many bits of them."""


class Mastery(RingOwner):
    """One node's, in one epoch."""

    def __init__(self, member: "Member", ring: Ring, mirror: Mirror | None) -> None:
        self.member = member
        self.copy = member.copy
        self.epoch = ring.epoch
        self.over = False
        self.is_open = False
        self.next_position = ring.epoch << EPOCH_SHIFT
        # what was handed out before may have been handed out up to here
        self.lent_before = self.copy.lent
        # as far as everybody in sync knows; of what its own copy knows others may have dropped the step that said so
        self.lent = 0
        self.asked = self.copy.lent
        # the queue: what is settled; what consumers have; what they ever had
        self.arrived: set[int] = set()
        self.out: set[int] = set()
        self.handed: set[int] = set()
        # removed, by the step that said so, which is not settled
        self.gone: dict[int, int] = {}
        self.returns: dict[int, int] = {}
        # what steps that are not settled say, and their epochs
        self.said: dict[int, tuple[int, tuple[Saying, ...]]] = {}
        self.saying: list[Saying] = []
        # which attempt to follow, or to attach, is each node's last
        self.joins: dict[str, int] = {}
        self.seats: dict[str, tuple[int, int]] = {}
        self.settled_marks = Marks()
        # how much each seat was told to be confirmed
        self.confirmed: dict[str, int] = {}
        # those who catch up, and the first position that each gets in a step
        self.newcomers: dict[str, Newcomer] = {}
        self.firsts: dict[str, int] = {}
        end = 0 if mirror is None else int(mirror.end)
        self.master: Master = Master(ring, member.run, Downlink(self), self, member.turn, end)
        if mirror is None:
            self.copy.caught_up()
        else:
            self._inherit(mirror)
        self.master.open()
        self.saying.append(Saying(int(OPEN), 0, ring.epoch))
        if self.asked:
            self.master.writer.lend(self.asked)
            self.saying.append(Saying(int(LEND), 0, self.asked))

    def _inherit(self, mirror: Mirror) -> None:
        for step in mirror.steps:
            self.said[int(step.number)] = int(step.epoch), sayings(step.data)
        epochs = Epochs(list(mirror.epochs.beginnings))
        self.master.inherit(list(mirror.steps), mirror.settled, epochs, mirror.marks.copy())

    # -- the turn

    def end_turn(self) -> None:
        if self.saying:
            self.said[int(self.master.end) + 1] = self.epoch, tuple(self.saying)
            self.saying = []
        self.master.end_turn()

    def settled(self, number: int) -> None:
        if self.over:
            return
        for each in sorted(self.said):
            if each <= number:
                epoch, said = self.said.pop(each)
                self.member.world.promises.settled(self, each, epoch, said)
                for saying in said:
                    self._carry_out(saying)
        if self.is_open:
            self._confirm()
        elif self.master.opened:
            self._open()
        self.look_at_newcomers()

    def _carry_out(self, saying: Saying) -> None:
        if saying.kind == STORE:
            self.arrived.add(saying.first)
            name, incarnation, _count = saying.payload.decode().split("/")
            self.settled_marks.heard(name, int(incarnation), saying.last)
        elif saying.kind == REMOVE:
            self.copy.remove(saying.level, saying.first, saying.last)
            for position in range(saying.first, saying.last + 1):
                self.arrived.discard(position)
                self.gone.pop(position, None)
        elif saying.kind == RETURNED:
            self.copy.returned(saying.first, saying.last)
        elif saying.kind == LEND:
            self.lent = max(self.lent, saying.first)

    def _open(self) -> None:
        """All that was inherited is settled, and carried out."""
        self.is_open = True
        self.arrived = set(self.copy.held)
        self.settled_marks = self.master.marks.copy()
        for node in self.seats:
            self._answer(node)

    # -- publishes

    def attached(self, node: str, letter: Letter) -> None:
        self.seats[node] = letter.attempt, letter.number
        self.confirmed.pop(node, None)
        if self.is_open:
            self._answer(node)

    def _answer(self, node: str) -> None:
        attempt, incarnation = self.seats[node]
        self._send(node, Letter(letters.HELD, self.epoch, attempt, self.master.marks.of(node, incarnation)))
        self._confirm()

    def _confirm(self) -> None:
        for node, (attempt, incarnation) in self.seats.items():
            count = self.settled_marks.of(node, incarnation)
            if count > self.confirmed.get(node, 0):
                self.confirmed[node] = count
                self._send(node, Letter(letters.CONFIRMED, self.epoch, attempt, count))

    def published(self, node: str, letter: Letter) -> None:
        if self.seats.get(node, (0, 0))[0] != letter.attempt:
            return
        incarnation, level, persistent, payload = letter.what
        marks = self.master.marks
        if letter.number <= marks.of(node, incarnation):
            return
        marks.heard(node, incarnation, letter.number)
        position = self.next_position
        self.next_position += 1
        self.master.writer.origin(node, incarnation)
        self.master.writer.store(position, level, 0, persistent, letter.number, payload, 0)
        if self.copy.store(position, level, 0, persistent, payload, 0):
            self.master.must_be_flushed()
        self.saying.append(Saying(int(STORE), level, position, letter.number, persistent, payload))

    # -- consumers

    def lend(self, ahead: int) -> None:
        """Ask for a horizon above the first message that is not below one."""
        position = min(each for each in self.arrived if each > self.asked) + ahead
        self.asked = position
        self.master.writer.lend(position)
        if self.copy.lend(position):
            self.master.must_be_flushed()
        self.saying.append(Saying(int(LEND), 0, position))

    def lendable(self) -> bool:
        return any(position > self.asked for position in self.arrived)

    def deliverable(self) -> list[int]:
        return sorted(each for each in self.arrived - self.out if each <= self.lent and each not in self.gone)

    def deliver(self) -> None:
        position = self.deliverable()[0]
        marked = position <= self.lent_before or position in self.handed
        self.out.add(position)
        self.handed.add(position)
        self.member.world.promises.delivered(self, position, marked)

    def ack(self, position: int) -> None:
        self.out.discard(position)
        self._remove(position, position)

    def purge(self) -> None:
        """What is ready goes, in ranges of positions that follow one another."""
        ready = sorted(self.arrived - self.out - set(self.gone))
        for level in (0, 1):
            for span in spans_of([position for position in ready if self.copy.held[position].level == level]):
                self._remove(int(span.first), int(span.last))

    def _remove(self, first: int, last: int) -> None:
        level = self.copy.held[first].level
        for position in range(first, last + 1):
            self.gone[position] = int(self.master.end) + 1
            self.member.world.promises.removed(self.copy.held[position].payload)
        self.master.writer.remove(level, first, last)
        self.saying.append(Saying(int(REMOVE), level, first, last))

    def requeue(self, position: int) -> None:
        self.out.discard(position)
        count = self.returns.get(position, 0) + 1
        self.returns[position] = count
        self.master.writer.returned(position, count)
        self.saying.append(Saying(int(RETURNED), 0, position, count))

    # -- followers

    def heard(self, node: str, letter: Letter) -> None:
        """Something that a follower says."""
        if letter.kind == letters.JOIN:
            self._forget(node)
            self.joins[node] = letter.attempt
            whole, end, settled, beginnings, known = letter.what
            request = JoinRequest(letter.epoch, whole, end, settled, list(beginnings), known)
            self.master.joined(node, letter.number, request)
        elif self.joins.get(node) != letter.attempt:
            return
        elif letter.kind == letters.SAFE:
            self.master.safe(node, letter.number)
        elif letter.kind == letters.HAS:
            self.master.told(node, list(letter.what))
        else:
            self.master.caught_up(node)

    def lost(self, node: str) -> None:
        self._forget(node)
        self.seats.pop(node, None)
        self.master.lost(node)

    def changed(self, ring: Ring, version: int) -> None:
        self.master.changed(ring, version)
        for node in [node for node in self.newcomers if node not in ring.members]:
            del self.newcomers[node]

    def _forget(self, node: str) -> None:
        self.joins.pop(node, None)
        self.newcomers.pop(node, None)

    def lacks(self, node: str, spans: list[Span]) -> None:
        self.newcomers[node] = Newcomer(self, node, spans)
        self.look_at_newcomers()

    def look_at_newcomers(self) -> None:
        for newcomer in list(self.newcomers.values()):
            newcomer.look()

    def fed(self, node: str) -> None:
        """A newcomer has been sent all that it lacked."""
        del self.newcomers[node]

    def say(self, node: str, kind: str, number: int, what: object, other: int = 0) -> None:
        """Something to a follower."""
        self._send(node, Letter(kind, self.epoch, self.joins[node], number, other, what))

    def _send(self, node: str, letter: Letter) -> None:
        if not self.over:
            self.member.send(node, letter)

    # -- what the machine wants

    def propose(self, ring: Ring) -> None:
        if not self.over:
            self.member.world.promises.proposed(self, ring)
            self.member.propose(ring)

    def reached(self, node: str) -> bool:
        return node in self.member.peers


class Downlink(Downstream):
    """The way to the followers."""

    def __init__(self, mastery: Mastery) -> None:
        self._mastery = mastery

    def resume(self, node: str, common: int, settled: int) -> None:
        self._mastery.say(node, letters.RESUME, common, None, settled)

    def start(self, node: str, number: int) -> None:
        mastery = self._mastery
        mastery.firsts[node] = mastery.next_position
        mastery.say(node, letters.START, number, tuple(sorted(mastery.master.marks.runs.items())), mastery.asked)

    def step(self, node: str, step: Step) -> None:
        self._mastery.say(node, letters.STEP, int(step.number), (int(step.epoch), step.data))

    def settle(self, node: str, number: int) -> None:
        self._mastery.say(node, letters.SETTLE, number, None)
