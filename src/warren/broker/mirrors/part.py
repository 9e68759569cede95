"""This node's part in one ring, from the moment it is to hold the queue until it is not.

::

                     ring: another is master                ring: this run is master
    copy prepared ──────────────────────────► mirror ◄────────────────────────────────► mastery
                                                │  deposed: goes on with all it has
                                                └── no master: stands for election

It acts on what was agreed upon and on nothing else. What it proposes itself it hears of like everybody does.

Not here: what a mirror or a master does (`mirroring`, `broker.mirrors.mastery`), all parts of a node
(`broker.mirrors.rings`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.broker.mirrored_streams.stream_copy import StreamCopy
from warren.broker.mirrors.making import mirror_stream
from warren.broker.mirrors.mastery import Mastery
from warren.broker.mirrors.mirrored_log import MirroredLog, max_priority_of
from warren.broker.mirrors.upstream import LinkUpstream
from warren.broker.mirrors.why_another import why_another
from warren.broker.moves.adopting import hold_all
from warren.errors import InvariantBroken
from warren.mirroring.messages import epoch_of
from warren.mirroring.mirror import ALONE, Mirror
from warren.mirroring.stepping_down import step_down
from warren.mirroring.story import DROPPED, IN_SYNC, PROMOTED, Story, changes_between
from warren.mirroring.succession import heirs, patience_ms
from warren.model.copies import Copy, CopyAsker
from warren.model.own_queue import OwnQueue
from warren.model.ports import QueueLog
from warren.model.rings import Ring, Run
from warren.model.turn import FlushWaiter, Timed, Timer
from warren.queue.queue import Queue
from warren.store.topology_definitions import QueueDefinition
from warren.stream.stream import Stream

if TYPE_CHECKING:
    from warren.broker.mirrors.rings import Rings

DOUBT_MS: Final[i64] = 300
"""How long a lost link may be nothing but a lost link."""

AGAIN_MS: Final[i64] = 500


@final
class Part(CopyAsker, Timed, FlushWaiter):
    """In the ring of one queue."""

    def __init__(self, rings: "Rings", definition: QueueDefinition, queue_id: int, book: QueueLog, copy: Copy) -> None:
        self.definition: QueueDefinition = definition
        self.queue_id: int = queue_id
        self.copy: Copy = copy
        self.mastery: Mastery | None = None
        self.story: Story = Story()
        self._rings: Rings = rings
        self._book: QueueLog = book
        self.upstream: LinkUpstream = LinkUpstream(rings, queue_id)
        self.mirror: Mirror = Mirror(copy, self.upstream, rings.turn)
        self._prepared: bool = False
        # what it should hold is not here, or cannot be read at all
        self._lacks: bool = False
        self._unreadable: bool = False
        self.over: bool = False
        # the node knows of a later version than this part has acted on
        self.is_behind: bool = False
        # what it proposed, until it is seen to have come about or not
        self._standing: bool = False
        self._timer: Timer | None = None
        # since when there has been no master, as far as this node can tell; 0 if there is one
        self._lost_at_ms: i64 = 0
        # the master of the ring before this one
        self._predecessor: Run | None = None
        self._synced_before: list[str] = []
        self._heed_policies()

    @property
    def ring(self) -> Ring:
        ring = self.definition.ring
        if ring is None:
            raise InvariantBroken(f"queue '{self.definition.name}' is not mirrored")
        return ring

    # -- what it holds

    def prepare(self) -> None:
        self.copy.prepare(self)

    def copy_prepared(self) -> None:
        lack = self.copy.lack()
        self._lacks = lack != "" and self._is_counted_on()
        if self._lacks:
            # as the master it would give up what lies behind that, and have the others do so, who may have it all
            self._tell_damage(lack)
        elif self.copy.disown():
            self.note("warning", "mirror.lost_files", {"node": self._rings.own_run[0], "reason": lack})
            self._rings.turn.await_flush(self)
        else:
            self._prepared = True
            self.act()

    def flushed(self) -> None:
        if not self.over:
            self.copy_prepared()

    def _is_counted_on(self) -> bool:
        """Whether it is in sync, or was until it restarted and nobody has taken note of that."""
        return self._rings.own_run[0] in self.ring.synced_names()

    def copy_damaged(self, reason: str) -> None:
        self._unreadable = True
        self._tell_damage(reason)
        self.act()

    def _tell_damage(self, reason: str) -> None:
        """It holds nothing it could vouch for, and takes part no more until another is master, who has everything."""
        self.note("error", "mirror.damaged", {"node": self._rings.own_run[0], "reason": reason})

    def adopt(self, queue: OwnQueue) -> None:
        """This node has the queue already: it goes on as the master's, whose copy is to be made of it."""
        mastery = Mastery(self._rings, self, self.ring, self.copy)
        log = MirroredLog(self._book, mastery, max_priority_of(self.definition.arguments))
        mastery.adopt(queue, log)
        if isinstance(queue, Queue):
            # of what is in memory alone nobody knows what was handed out
            log.lending.ask(self._lent_of(queue) if queue.durable else self.ring.first_position() - 1)
            queue.mirror(log)
        elif isinstance(queue, Stream):
            mirror_stream(self, queue, log)
        queue.begin_epoch(self.ring.first_position())
        self.mastery = mastery

    def _lent_of(self, queue: Queue) -> i64:
        """Up to where it was handed out: the disk knows of what lasts, memory of the rest."""
        highest = self.copy.lent_to()
        for entry in self._rings.lent_out(queue) + [one for one in queue.in_memory() if one.redelivered]:
            highest = max(highest, entry.position)
        return highest

    # -- what was agreed upon

    def changed(self, definition: QueueDefinition) -> None:
        before = self.ring
        self._predecessor = before.master_run
        self._synced_before = before.synced_names()
        self.definition = definition
        self.is_behind = False
        self._standing = False
        self._lost_at_ms = 0
        self._tell(before)
        mastery = self.mastery
        if mastery is not None and mastery.master.ring.epoch == self.ring.epoch:
            mastery.changed(self.ring)
        else:
            self.act()

    def _tell(self, before: Ring) -> None:
        """Let the ring's story go on; the master writes it into the log as well."""
        ring = self.ring
        leads = self.mastery is not None and ring.epoch == before.epoch
        for name, facts in changes_between(before, ring):
            if name == PROMOTED:
                facts["reason"] = why_another(self._rings, self._predecessor)
            if leads and name == IN_SYNC:
                self.note("info", "mirror.in_sync", facts)
            elif leads and name == DROPPED:
                self.note("warning", "mirror.dropped", facts)
            elif name != PROMOTED or ring.master_run != self._rings.own_run:
                self.story.tell(self._rings.turn.now_ms, name, facts)

    def policies_changed(self) -> None:
        self._heed_policies()
        self._rings.placing.look(self)

    def _heed_policies(self) -> None:
        wishes = self._rings.wishes
        self._book.seen.bound(wishes.dedup_window(self.definition))
        if isinstance(self.copy, StreamCopy):
            self.copy.catalog.segment_bytes = wishes.segment_bytes(self.definition)

    def act(self) -> None:
        """Be what the ring says this node is."""
        if self.over:
            return
        if not self._prepared:
            self._be_a_newcomer_if_it_may()
            return
        ring, mastery = self.ring, self.mastery
        if mastery is not None:
            if mastery.master.ring.epoch == ring.epoch and ring.master_run == self._rings.own_run:
                if not mastery.begun:
                    self._begin(ring, mastery)
                return
            self._step_down()
        if ring.master_run == self._rings.own_run:
            self._lead(ring)
        else:
            self._follow(ring)

    def _be_a_newcomer_if_it_may(self) -> None:
        """One that has lost something can get everything from the master, once nobody counts on it."""
        if self._is_counted_on():
            return
        if self._lacks:
            self.copy_prepared()
        elif self._unreadable and isinstance(self.copy, StreamCopy) and self._master_is_there(self.ring):
            self._begin_anew()

    def _lead(self, ring: Ring) -> None:
        self._stop_timer()
        self.mirror.leave()
        self.mastery = Mastery(self._rings, self, ring, self.copy)
        self.mastery.serving.succeeds(self._predecessor)
        self._begin(ring, self.mastery)

    def _begin(self, ring: Ring, mastery: Mastery) -> None:
        if isinstance(mastery.queue, Queue):
            hold_all(mastery.queue, self.copy, self._rings.lent_out(mastery.queue))
        mastery.begin(self.mirror)
        facts: dict[str, object] = {
            "node": ring.master,
            "epoch": ring.epoch,
            "in_sync": ",".join(ring.synced_names()),
            "reason": why_another(self._rings, self._predecessor),
            "pending": len(self.mirror.steps),
        }
        self.note("info", "mirror.promoted", facts)
        if self._synced_before and ring.master not in self._synced_before:
            left = {"epoch": ring.epoch, "messages": self.copy.count(), "body_bytes": self.copy.body_bytes()}
            self.note("warning", "mirror.promoted_unsynced", {**left, "had_all": ",".join(self._synced_before)})
        self._rings.leads(self)
        self._rings.partners_changed()

    def _step_down(self) -> None:
        mastery = self.mastery
        assert mastery is not None
        self.mastery = None
        mastery.end()
        self._rings.close_queue(self.definition)
        self.copy.left_alone()
        self.mirror = Mirror(self.copy, self.upstream, self._rings.turn)
        # one whose epoch was never opened may have done what did not count: whoever is master compares what it has
        if mastery.master.opened:
            step_down(mastery.master, self.mirror)

    # -- as a mirror

    def _follow(self, ring: Ring) -> None:
        upstream = self.upstream
        if self._standing:
            return
        if self._master_is_there(ring):
            self._stop_timer()
            self._lost_at_ms = 0
            if self.copy.has_lost():
                self._begin_anew()
            elif self.mirror.state == ALONE or (upstream.node, epoch_of(upstream.tag)) != (ring.master, ring.epoch):
                upstream.node = ring.master
                self.mirror.follow(ring.epoch)
            return
        self.mirror.leave()
        self._consider(ring)

    def _master_is_there(self, ring: Ring) -> bool:
        """Whether it is reached, and has not ceased to claim that it lives: a node that is paused does."""
        node, incarnation = ring.master_run
        rings = self._rings
        return rings.incarnation_reached(node) == incarnation and not rings.membership.has_ended(node, incarnation)

    def master_lost(self, refused: bool) -> None:
        """The link to the master is gone."""
        self.mirror.leave()
        if not self._prepared or self.over or self._standing:
            return
        if refused:
            self._stand()
        else:
            self._wait(DOUBT_MS)

    def _consider(self, ring: Ring) -> None:
        """There is no way to the master: is it this node's turn?"""
        if self._rings.living(ring.master) == ring.master_run[1]:
            self._wait(DOUBT_MS)
        else:
            self._stand()

    def timer_fired(self) -> None:
        self._timer = None
        if self.over or self.mastery is not None or not self._prepared:
            return
        if self._standing:
            # nobody knows what became of it: until the ring is seen to change, this node follows nobody
            self.propose(self.ring.promoting(self._rings.own_run))
        elif self._master_is_there(self.ring):
            self.act()
        else:
            self._stand()

    def _stand(self) -> None:
        """Stand for election, when those before have had their time."""
        rings, ring, now_ms = self._rings, self.ring, self._rings.turn.now_ms
        anybody, born = rings.wishes.promotes_anybody(self.definition), rings.membership.members.born
        order = heirs(ring, rings.all_living(), anybody, self.definition.durable, born)
        if rings.own_run not in order or rings.placing.retreats:
            self._wait(AGAIN_MS)
            return
        before = [run for run in order if run == rings.own_run or rings.incarnation_reached(run[0]) == run[1]]
        if self._lost_at_ms == 0:
            self._lost_at_ms = now_ms
        at_ms = self._lost_at_ms + patience_ms(before, rings.own_run)
        if now_ms < at_ms:
            self._wait(at_ms - now_ms)
            return
        self._standing = True
        self.mirror.leave()
        self.propose(ring.promoting(rings.own_run))

    def propose(self, ring: Ring) -> None:
        self._rings.proposals.add(self, ring)

    def proposal_failed(self, ring: Ring) -> None:
        """It is not known to have come about, or has not."""
        if self.over:
            return
        mastery = self.mastery
        if mastery is not None:
            # one that would make another master has the next epoch
            if ring.epoch - mastery.master.ring.epoch in (0, 1):
                mastery.master.refused()
            return
        self._wait(AGAIN_MS)

    def begin_anew_if_it_must(self) -> None:
        """What was taken off may have shown that it holds what never will count."""
        if isinstance(self.copy, StreamCopy) and self.copy.contradicts:
            self._begin_anew()

    def _begin_anew(self) -> None:
        self.note("warning", "mirror.begins_anew", {"node": self._rings.own_run[0]})
        self._rings.hold_anew(self)

    # -- as the master

    def make_queue(self, mastery: Mastery) -> tuple[OwnQueue, MirroredLog]:
        return self._rings.make_queue(self, self._book, mastery)

    def syncs_by_itself(self) -> bool:
        return self._rings.wishes.syncs_by_itself(self.definition)

    # -- the end

    def close(self) -> None:
        """This node is not to hold the queue any more, or there is none."""
        self.over = True
        self._stop_timer()
        self.mirror.leave()
        if self.mastery is not None:
            self.mastery.end()
            self.mastery = None
        self.copy.close()
        if not self.definition.durable:
            # that copy was in memory
            self._book.close()

    def note(self, level: str, name: str, facts: dict[str, object]) -> None:
        self.story.tell(self._rings.turn.now_ms, name, facts)
        where: dict[str, object] = {"vhost": self.definition.vhost, "queue": self.definition.name}
        self._rings.turn.note(level, name, {**where, **facts})

    def _wait(self, for_ms: i64) -> None:
        if self._timer is None:
            self._timer = self._rings.turn.set_timer(self._rings.turn.now_ms + for_ms, self)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._rings.turn.cancel_timer(self._timer)
            self._timer = None
