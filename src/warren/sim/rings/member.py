"""A pretend node of a ring: plays master or mirror by what it has heard of the store and of its links.

A mirror that takes its master for lost, and is next in line, leaves it for good: it follows nobody until it has seen
another version of the ring than the one it proposed upon. What it proposed may have come about, and may still do.

A node that is no member of the ring holds nothing of the queue, and its clients use it all the same.

Not here: the toy queue (`sim.rings.mastery`), what happens when (`sim.rings.world`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warren.mirroring.marks import Marks
from warren.mirroring.mirror import ALONE, JoinRequest, Mirror, Upstream
from warren.mirroring.stepping_down import step_down
from warren.mirroring.steps import Step
from warren.mirroring.succession import heirs
from warren.model.copies import Span
from warren.model.rings import Ring, Run
from warren.model.turn import FlushWaiter, Turn
from warren.sim.rings import letters
from warren.sim.rings.agreed import News
from warren.sim.rings.letters import Letter
from warren.sim.rings.mastery import Mastery
from warren.sim.rings.seat import Seat
from warren.sim.rings.toy_copy import ToyCopy
from warren.sim.rings.wishes import Wanted, see_to

if TYPE_CHECKING:
    from warren.sim.rings.world import RingWorld


class Member(Upstream):
    """One node; its copy outlives its runs."""

    def __init__(self, world: "RingWorld", name: str, ring: Ring) -> None:
        self.world = world
        self.name = name
        self.copy = ToyCopy(world.promises.stored)
        self.up = False
        self.incarnation = 0
        self.ring = ring
        self.start()

    def start(self) -> None:
        """Another run of its process."""
        self.up = True
        self.incarnation += 1
        self.version = 0
        self.wanted = Wanted()
        # it is about to stop
        self.retreats = False
        self.living: dict[str, int] = {}
        self.peers: set[str] = set()
        self.turn = Turn()
        self.seat = Seat(self)
        self.mirror = Mirror(self.copy, self, self.turn)
        self.mastery: Mastery | None = None
        # the epoch it follows, whom, and which attempt to do so this is
        self.following = 0
        self.followed = ""
        self.attempt = 0
        # the version of the ring upon which it proposed itself
        self.frozen = 0
        self.asks_store = False
        # what came for a master that this node does not know itself to be
        self.early: list[tuple[str, Letter]] = []
        # what waits for which writes to be on disk
        self.batches: list[tuple[int, Sequence[FlushWaiter]]] = []

    def die(self, kept: int) -> None:
        self.up = False
        self.copy.crash(kept)

    @property
    def run(self) -> Run:
        return self.name, self.incarnation

    def end_turn(self) -> None:
        if self.mastery is not None:
            self.mastery.end_turn()
        self.mirror.end_turn()
        if self.turn.flush_waiters:
            self.batches.append((self.copy.written_no, self.turn.flush_waiters))
            self.turn.flush_waiters = []

    def flushed(self) -> None:
        written_no, waiters = self.batches.pop(0)
        self.copy.flush(written_no)
        for waiter in waiters:
            waiter.flushed()

    def timer_fired(self) -> None:
        self.turn.now_ms = self.turn.next_timer_ms()
        self.turn.fire_timers()

    # -- links

    def connected(self, peer: str) -> None:
        self.peers.add(peer)
        self._look_for_master()
        see_to(self)

    def lost(self, peer: str) -> None:
        self.peers.discard(peer)
        self.early = [(sender, letter) for sender, letter in self.early if sender != peer]
        if self.mastery is not None:
            self.mastery.lost(peer)
        elif peer == self.ring.master:
            self._leave()
        if peer == self.ring.master:
            self.seat.detach()
        see_to(self)

    def retreat(self) -> None:
        """Let another be master, before it stops."""
        self.retreats = True
        see_to(self)

    def send(self, peer: str, letter: Letter) -> None:
        link = self.world.links.between(self.name, peer)
        if link is not None and peer in self.peers:
            link.send(peer, letter)

    def receive(self, peer: str, letter: Letter) -> None:
        if letter.kind in letters.TO_SEAT:
            self.seat.heard(letter)
        elif letter.kind in letters.TO_MASTER:
            self._hear_as_master(peer, letter)
        elif letter.attempt == self.attempt and letter.epoch == self.following:
            self._hear_as_mirror(letter)

    def _hear_as_master(self, peer: str, letter: Letter) -> None:
        mastery = self.mastery
        if mastery is None or letter.epoch != mastery.epoch:
            if letter.epoch > self.ring.epoch or not self.version:
                self.early.append((peer, letter))
        elif letter.kind == letters.ATTACH:
            mastery.attached(peer, letter)
        elif letter.kind == letters.PUBLISH:
            mastery.published(peer, letter)
        else:
            mastery.heard(peer, letter)

    def _hear_as_mirror(self, letter: Letter) -> None:
        mirror = self.mirror
        number, what = letter.number, letter.what
        if letter.kind == letters.RESUME:
            mirror.resume(number, letter.other)
        elif letter.kind == letters.START:
            mirror.start(number, letter.other, Marks(dict(what)))
        elif letter.kind == letters.STEP:
            mirror.take(Step(number, what[0], what[1]))
        elif letter.kind == letters.SETTLE:
            mirror.settle(number)
        elif letter.kind == letters.PAST:
            held, returned = what
            mirror.take_past(number, held.level, 0, held.persistent, returned, held.payload, 0)
        elif letter.kind == letters.SURPLUS:
            mirror.remove_past(what)
        else:
            mirror.past_is_over()

    # -- what the mirror says

    def join(self, request: JoinRequest) -> None:
        self.attempt += 1
        what = (request.whole, int(request.end), int(request.settled), tuple(request.beginnings), self.version)
        self._tell(Letter(letters.JOIN, self.following, self.attempt, self.incarnation, what=what))

    def safe(self, number: int) -> None:
        self._tell(Letter(letters.SAFE, self.following, self.attempt, int(number)))

    def has(self, spans: list[Span]) -> None:
        self._tell(Letter(letters.HAS, self.following, self.attempt, what=tuple(spans)))

    def caught_up(self) -> None:
        self._tell(Letter(letters.CAUGHT_UP, self.following, self.attempt))

    def _tell(self, letter: Letter) -> None:
        self.send(self.followed, letter)

    # -- the store

    def hear(self, news: News) -> None:
        if news.wanted is not None:
            self.wanted = news.wanted
            see_to(self)
        if news.ring is not None:
            self.see(news.version, news.ring)
            if news.anew and self.following and self.run not in self.ring.in_sync:
                # it may have been taken out and taken in again: its master does not take it for a follower any more
                self._leave()
                self._look_for_master()
        elif news.run[0]:
            name, incarnation = news.run
            self.living[name] = incarnation

    def see(self, version: int, ring: Ring) -> None:
        """A version of the ring; perhaps one that is known."""
        if version <= self.version:
            return
        self.version, self.ring = version, ring
        self.frozen = 0
        if ring.master_run == self.run:
            if self.mastery is not None and self.mastery.epoch == ring.epoch:
                self.mastery.changed(ring, version)
            else:
                self._become_master(ring)
            see_to(self)
        elif self.mastery is not None:
            self._abdicate()
        if self.name not in ring.members:
            self._hold_nothing()
        self._look_for_master()

    def _become_master(self, ring: Ring) -> None:
        """If it has the whole queue it goes on where the last master was; if not it begins anew, with what it has."""
        self._leave()
        continues = self.mirror.whole
        self.mastery = Mastery(self, ring, self.mirror if continues else None)
        self.world.promises.promoted(self.mastery, continues)
        early, self.early = self.early, []
        for peer, letter in early:
            self._hear_as_master(peer, letter)

    def _abdicate(self) -> None:
        """It goes on as a mirror with all it has, unless it never was certain of what that is."""
        mastery = self.mastery
        assert mastery is not None
        mastery.over = True
        self.mastery = None
        self.mirror = Mirror(self.copy, self, self.turn)
        self.following = 0
        if mastery.master.opened:
            step_down(mastery.master, self.mirror)

    def _hold_nothing(self) -> None:
        if self.following or self.mirror.whole or self.copy.held:
            self._leave()
            self.mirror = Mirror(self.copy, self, self.turn)
            self.copy.clear()

    def _look_for_master(self) -> None:
        ring = self.ring
        if ring.master not in self.peers or not self.version:
            return
        if self.seat.epoch != ring.epoch or self.seat.detached:
            self.seat.attach(ring.epoch)
        if self.mastery is not None or self.frozen or ring.master == self.name or self.name not in ring.members:
            return
        if self.following != ring.epoch:
            self.following = ring.epoch
            self.followed = ring.master
            self.mirror.follow(ring.epoch)

    def _leave(self) -> None:
        self.following = 0
        self.mirror.leave()

    # -- when there is no master

    def takes_master_for_lost(self) -> bool:
        """It may propose itself: no master is seen, or it has done so and nothing is known of that."""
        if self.mastery is not None or not self.version or self.asks_store:
            return False
        if self.frozen:
            return True
        name, incarnation = self.ring.master_run
        lost = name not in self.peers or self.living.get(name) != incarnation
        return lost and not self.retreats and self.run in self.heirs()

    def heirs(self) -> list[Run]:
        living = {name: incarnation for name, incarnation in self.living.items() if incarnation}
        return heirs(self.ring, living, self.world.anybody)

    def propose_itself(self) -> None:
        self._leave()
        self.frozen = self.version
        self.propose(self.ring.promoting(self.run))

    def propose(self, ring: Ring) -> None:
        self.asks_store = True
        self.world.store.propose(self.run, self.version, ring)

    def refused(self) -> None:
        """Nothing is known of what it proposed."""
        self.asks_store = False
        if self.mastery is not None:
            self.mastery.master.refused()

    def at_rest(self) -> bool:
        """It holds all there is, as master or mirror, and waits for nothing."""
        if not self.up or self.seat.unconfirmed:
            return False
        if self.name not in self.ring.members:
            return not self.copy.held
        if self.mastery is not None:
            return self.mastery.is_open and not self.mastery.said
        return self.mirror.state != ALONE and self.mirror.whole and not self.mirror.steps
