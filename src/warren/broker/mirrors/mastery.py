"""This node as the master of a mirrored queue: takes publishes in, makes steps, and lets in what is settled.

::

    intake ──► position, journal, step ──ring──► settled ──► the queue has it; whoever waited is told
    queue ───► what left, came back, may be handed out ──► step

Until the epoch's first step is settled there is no queue here: only then is it certain what the queue has. It is made
from the copy that this node has, and whoever wants to use it has waited for that.

Not here: who counts and what is settled (`mirroring.master`), what newcomers lack (`broker.mirrors.catching_up`), the
queue (`queue.queue`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.broker.mirrors.downlink import Downlink
from warren.broker.mirrors.intake import Counts, EarlyConfirms, NodeIntake
from warren.broker.mirrors.mirrored_log import Gone, MirroredLog
from warren.broker.mirrors.newcomers import Newcomers
from warren.broker.mirrors.serving import Serving
from warren.broker.mirrors.under_way import UnderWay
from warren.mirroring.master import Master, RingOwner
from warren.mirroring.mirror import JoinRequest, Mirror
from warren.mirroring.steps import Step
from warren.model.copies import Copy, RestWaiter, Span
from warren.model.identity import identity_at
from warren.model.message import Entry, Message
from warren.model.mirrored import MasterWaiter
from warren.model.own_queue import OwnQueue
from warren.model.ports import PENDING, REJECTED
from warren.model.rings import Ring
from warren.model.turn import FlushWaiter, Timed, Turn
from warren.queue.queue import Queue
from warren.store.payloads import message_payload

FIRST_EPOCH: Final = 1
FIRST_PATIENCE_MS: Final[i64] = 2_000
"""How long a new queue waits for its mirrors before anybody may use it."""

if TYPE_CHECKING:
    from warren.broker.mirrors.part import Part
    from warren.broker.mirrors.rings import Rings


@final
class Mastery(RingOwner, Timed, RestWaiter):
    """One queue's, from its epoch's beginning to its end."""

    def __init__(self, rings: "Rings", part: "Part", ring: Ring, copy: Copy) -> None:
        self.queue: OwnQueue | None = None
        self.copy: Copy = copy
        self.min_in_sync: int = 1
        # what is stored next has this position, or a higher one
        self.next_position: i64 = ring.first_position()
        self._rings: Rings = rings
        self._part: Part = part
        self._turn: Turn = rings.turn
        self._log: MirroredLog | None = None
        self.downlink: Downlink = Downlink(rings, part.queue_id, self)
        self.master: Master = Master(ring, rings.own_run, self.downlink, self, rings.turn)
        self.newcomers: Newcomers = Newcomers(rings, part, self)
        # who waits for the queue to be open: each with its node and the run of that
        self._waiting: list[tuple[MasterWaiter, str, int]] = []
        # of the step that is being made
        self._entries: list[Entry] = []
        self._waiters: list[FlushWaiter] = []
        self._touched: bool = False
        self._counts: Counts = Counts()
        self._under_way: UnderWay = UnderWay()
        self._inherited: list[Step] = []
        self.early: EarlyConfirms = EarlyConfirms(rings.turn, self)
        self.serving: Serving = Serving(rings, self)
        self._since_ms: i64 = rings.turn.now_ms
        self._waits: bool = False
        self._ended: bool = False
        self._going: bool = False
        # who is told when it is decided whether the queue goes
        self._held: list[FlushWaiter] = []
        self.begun: bool = False
        # it was a queue of this node alone before
        self._adopted: bool = False

    # -- the beginning

    def adopt(self, queue: OwnQueue, log: MirroredLog) -> None:
        """There is a queue already. It begins when it is known what it has."""
        self.queue, self._log = queue, log
        self._adopted = True

    def begin(self, mirror: Mirror) -> None:
        """Open the epoch with what this node has as a mirror."""
        master = self.master
        self.begun = True
        if mirror.whole:
            master.end = mirror.end
            master.opening = mirror.end + 1
            master.inherit(list(mirror.steps), mirror.settled, mirror.epochs, mirror.marks.copy())
            self._inherited = list(mirror.steps)
        else:
            # it was told of things that had not come: what it has counts, and nothing else
            self.copy.caught_up()
            master.marks.complete = self._adopted or master.ring.epoch == FIRST_EPOCH
        master.open()
        self.touch()

    def _open(self) -> None:
        """Everything up to the epoch's first step is settled: there is a queue."""
        for step in self._inherited:
            self._part.mirror.carry_out(step)
        self._inherited = []
        self.queue, self._log = self._part.make_queue(self)
        self._let_in()

    def copy_rests(self) -> None:
        if not self._ended and self.queue is None:
            self.settled(self.master.settled)

    def await_open(self, waiter: MasterWaiter, node: str, incarnation: int) -> None:
        self._waiting.append((waiter, node, incarnation))
        self._let_in()

    def _let_in(self) -> None:
        """Whoever waits may use the queue, if that is open, and a new one has its mirrors."""
        if self.queue is None or not self.master.opened or not self._has_first_mirrors():
            return
        waiting = self._waiting
        self._waiting = []
        for waiter, node, incarnation in waiting:
            self._tell(waiter, node, incarnation)

    def _has_first_mirrors(self) -> bool:
        ring = self.master.ring
        until_ms = self._since_ms + FIRST_PATIENCE_MS
        if ring.epoch != FIRST_EPOCH or self._adopted or self._turn.now_ms >= until_ms:
            return True
        synced = ring.synced_names()
        if all(name in synced or not self.reached(name) for name in ring.members):
            return True
        if not self._waits:
            self._waits = True
            self._turn.set_timer(until_ms, self)
        return False

    def timer_fired(self) -> None:
        self._waits = False
        if not self._ended:
            self._let_in()

    def go_on(self) -> None:
        """What was not allowed to be handed out is, now."""
        if self._log is not None and self.queue is not None:
            self._log.lending.refused = False
            self.queue.lent()

    def forget(self, waiter: MasterWaiter) -> None:
        self._waiting = [waiting for waiting in self._waiting if waiting[0] is not waiter]

    def _tell(self, waiter: MasterWaiter, node: str, incarnation: int) -> None:
        assert self.queue is not None
        intake = NodeIntake(self._rings, self, node, incarnation, waiter)
        marks = self.master.marks
        self._counts.put_down(marks)
        known = marks.knows(node, incarnation) and not self._refuses_some(self.queue)
        waiter.opened(self.queue, intake, marks.of(node, incarnation), known)

    def _refuses_some(self, queue: OwnQueue) -> bool:
        """Whether a master before this one may have refused something below a node's mark, which nobody knows."""
        full = isinstance(queue, Queue) and queue.settings.limited and queue.settings.rejects
        return self.min_in_sync > 1 or full

    # -- publishes

    def publish(self, intake: NodeIntake, count: i64, message: Message, counted: bool) -> i64:
        queue, master = self.queue, self.master
        if queue is None or self._ended:
            # the node will send it to the next master
            return PENDING
        if len(master.ring.in_sync) < self.min_in_sync:
            return REJECTED
        if not counted:
            queue.uncounted += 1
        if message.identified and self.log().seen.repeats(message.content):
            # what the first one waits for is in this step, or in one before it
            return PENDING
        entry = queue.reserve(message)
        if entry is None:
            return REJECTED
        message = entry.message
        payload, crc = message_payload(message)
        writer = master.writer
        writer.origin(intake.node, intake.incarnation)
        persistent = message.persistent
        writer.store(entry.position, message.priority, entry.expires_at_ms, persistent, count, payload, crc)
        self._counts.took(intake, count)
        if persistent and queue.durable:
            master.must_be_flushed()
        self.copy.hold(entry, payload, crc)
        self._entries.append(entry)
        self.next_position = entry.position + 1
        self.touch()
        return PENDING

    def log(self) -> MirroredLog:
        """Of the queue, which there is."""
        assert self._log is not None, "the queue is open"
        return self._log

    def seen_in_steps(self) -> list[bytes]:
        """The publishing ids of all messages but those that no step has yet: nobody else may ever get these."""
        seen, durable = self.log().seen, self.log().durable
        fresh = [entry.message for entry in self._entries if entry.message.identified]
        for message in reversed(fresh):
            seen.discard(identity_at(message.content, 0))
        rows = seen.rows(False)
        for message in fresh:
            seen.note(message.content, message.persistent and durable)
        return rows

    def await_safe(self, waiter: FlushWaiter) -> None:
        if not self._ended:
            self._waiters.append(waiter)
            self.touch()

    def may_go(self, going: bool) -> None:
        """Whether it may be deleted because it is empty, or unused: nothing is confirmed until that is decided."""
        self._going = going
        if not going:
            held = self._held
            self._held = []
            self._tell_safe(held)

    def undecided(self) -> bool:
        """Whether it is not known yet if the queue goes."""
        return self._going and not self._ended

    def make_certain(self) -> None:
        """A removal that may still come about does not once there is another version of the ring."""
        self._part.propose(self.master.ring)

    def touch(self) -> None:
        """There is something to put into a step before the turn ends."""
        if not self._touched:
            self._touched = True
            self._rings.touched.append(self)

    # -- the turn

    def end_round(self) -> None:
        """What was gathered becomes a step.

        If that is nothing but what left, and a step is under way, it waits until that is settled: nobody waits for it,
        and more may come.
        """
        self._touched = False
        if not self.begun or self._ended:
            return
        master, log = self.master, self._log
        gone: list[Gone] = []
        self._counts.put_down(master.marks)
        if log is not None and self._waits_itself(log):
            return
        if log is not None:
            self._lend_ahead(log)
            gone = log.write(master.writer)
            if log.lending.asked > log.lending.settled and log.durable:
                master.must_be_flushed()
        if not len(master.writer):
            self._wait_for_last()
            return
        number: i64 = master.end + 1
        if log is not None:
            log.lending.written(number)
        self._under_way.add(number, self._entries, gone, self._waiters)
        self._entries = []
        self._waiters = []
        master.end_turn()
        self.early.end_round()

    def _waits_itself(self, log: MirroredLog) -> bool:
        return self._under_way.any() and not self._entries and not self._waiters and log.only_left()

    def _lend_ahead(self, log: MirroredLog) -> None:
        """Somebody waits for what comes: let it be known in the same step that it may have gone out."""
        queue = self.queue
        if self._entries and queue is not None and queue.consumer_count() and queue.ready_count() == 0:
            log.lending.ask(self._entries[-1].position)

    def _wait_for_last(self) -> None:
        """Nothing happened that anybody has to hear of: what waits, waits for the step before."""
        waiters = self._waiters
        self._waiters = []
        if self._under_way.any():
            self._under_way.await_last(waiters)
        else:
            self._tell_safe(waiters)

    def settled(self, number: i64) -> None:
        if self._ended:
            return
        if self.queue is None:
            if not self.master.opened:
                return
            if not self.copy.rests():
                self.copy.await_rest(self)
                return
            self._open()
        queue, log = self.queue, self._log
        assert queue is not None
        assert log is not None
        settled = self._under_way.settle(number)
        if settled is not None:
            for level, first, last in settled.gone:
                self.copy.remove(level, first, last)
        if log.lending.step_settled(number):
            queue.lent()
        if settled is not None and settled.entries:
            self._rings.trace_settled(queue, self.master, settled.entries)
            queue.arrive(settled.entries)
            self.copy.settled(settled.entries[-1].position)
        if self._waiting:
            self._let_in()
        if self.newcomers.any():
            self.newcomers.look()
        if settled is not None:
            self._tell_safe(settled.waiters)
        if not self._under_way.any() and log.anything_left():
            self.touch()

    def _tell_safe(self, waiters: list[FlushWaiter]) -> None:
        if self._going:
            self._held += waiters
            return
        for waiter in waiters:
            waiter.flushed()

    # -- the ring

    def changed(self, ring: Ring) -> None:
        self.may_go(False)
        self.master.changed(ring, self._rings.agreement.modified(self._part.definition.key()))
        for newcomer in self.newcomers.all():
            if newcomer.node not in ring.members:
                self.newcomers.forget(newcomer.node)
        self._rings.placing.look(self._part)
        self._rings.partners_changed()
        self._let_in()
        self.serving.look()

    def joined(self, node: str, incarnation: int, tag: int, request: JoinRequest) -> None:
        self.newcomers.forget(node)
        self.downlink.forget(node)
        self.downlink.tags[node] = tag
        self._part.note("info", "mirror.joined", {"node": node, "epoch": request.epoch, "whole": request.whole})
        self.master.joined(node, incarnation, request)
        self.serving.follows((node, incarnation))

    def bears(self, node: str, tag: int) -> bool:
        """Whether this is the tag of what the node says as a follower."""
        return self.downlink.tags.get(node) == tag

    def propose(self, ring: Ring) -> None:
        if not self._ended:
            self._part.propose(ring)

    def reached(self, node: str) -> bool:
        return self._rings.links.is_connected(node)

    def lost(self, node: str) -> None:
        self.newcomers.forget(node)
        self.downlink.forget(node)
        self.master.lost(node)
        self._let_in()

    def lacks(self, node: str, spans: list[Span]) -> None:
        self.newcomers.come(node, spans)

    def caught_up(self, node: str) -> None:
        self.newcomers.caught_up(node)
        self.master.caught_up(node)

    # -- the end

    def end(self) -> None:
        """This node is master no longer, or the queue is gone."""
        self._ended = True
        self.early.wanted = False
        self._waiting = []
        self.newcomers.end()
