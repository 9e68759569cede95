"""The pretend world of one ring: its nodes, links and store, and what may happen next.

    world = RingWorld(3)
    action = world.possible(...)[0]
    world.act(action)

An action is a word and the names, or numbers, it concerns. Each is one thing that one node does or hears of, or one
thing that befalls it, and ends with a look at every rule.

Not here: who picks actions (`sim.rings.run`, `sim.rings.explore`), the rules (`sim.rings.promises`).
"""

from collections import Counter
from collections.abc import Callable, Sequence

from warren.errors import InvariantBroken, PeerFault
from warren.model.rings import Ring
from warren.sim.rings.agreed import Agreed
from warren.sim.rings.links import Links
from warren.sim.rings.mastery import Mastery
from warren.sim.rings.member import Member
from warren.sim.rings.pictures import picture_of
from warren.sim.rings.promises import UNDERSTOOD, Promises
from warren.sim.rings.wishes import Wanted

NAMES = ("a", "b", "c", "d", "e")

Action = tuple[str, str, str, int]
"""What, who, whom or whose, and how much."""


class RingWorld:
    """The first node is the master of a ring in which nobody else is in sync; without `members` all nodes hold it."""

    def __init__(
        self,
        size: int,
        anybody: bool = False,
        say: Callable[[str, str], None] | None = None,
        members: Sequence[str] = (),
    ) -> None:
        names = list(NAMES[:size])
        ring = Ring(1, names[0], list(members) or names, [(names[0], 1)])
        # a policy allows that any member is promoted if all who were in sync are gone
        self.anybody = anybody
        self.seen: Counter[str] = Counter()
        self.links = Links()
        self.store = Agreed(ring)
        if members:
            self.store.wanted = Wanted("exactly", len(members))
        self.promises = Promises(self)
        self.members: dict[str, Member] = {}
        self.steps_taken = 0
        # what happens was seen to break no rule
        self.seen_before = False
        self._say = say
        for name in names:
            self.members[name] = Member(self, name, ring)
        for name in names:
            self._introduce(self.members[name])

    def _introduce(self, member: Member) -> None:
        self.store.register(member.run)
        self.links.connect(member.name, member.name)
        member.connected(member.name)

    def saw(self, what: str) -> None:
        self.seen[what] += 1

    # -- what may happen

    def ordinary(self) -> list[Action]:
        """Whatever goes on by itself, faults and clients aside."""
        found: list[Action] = []
        for one, other, link in self.links.all():
            for to, waiting in link.waiting.items():
                sender = other if to == one else one
                if waiting and (sender, to) not in self.links.cut:
                    found.append(("deliver", to, sender, 1))
                if link.broken and to not in link.noticed:
                    found.append(("notice", to, sender, 0))
        members = list(self.members.values())
        for place, member in enumerate(members):
            if not member.up:
                continue
            found += self._of(member)
            for peer in members[place + 1 :]:
                if (
                    peer.up
                    and not self.links.is_cut(member.name, peer.name)
                    and self.links.between(member.name, peer.name) is None
                ):
                    found.append(("connect", member.name, peer.name, 0))
        return found + self._of_store()

    def _of(self, member: Member) -> list[Action]:
        name = member.name
        found: list[Action] = []
        if member.batches:
            found.append(("flush", name, "", 0))
        if self.may_hear(name):
            found.append(("hear", name, "", 0))
        if name not in self.store.cut and self.store.majority and self.store.living.get(name) != member.incarnation:
            found.append(("register", name, "", 0))
        if member.takes_master_for_lost():
            found.append(("propose itself", name, "", 0))
        if member.mastery is not None:
            newcomers = member.mastery.newcomers.items()
            found += [("feed", name, node, 1) for node, newcomer in newcomers if newcomer.reader is not None]
        return found

    def may_hear(self, name: str) -> bool:
        """Whether there is something to be heard of the store."""
        return name not in self.store.cut and name in self.store.news and len(self.store.news[name]) > 0

    def _of_store(self) -> list[Action]:
        found: list[Action] = []
        for number, request in enumerate(self.store.requests):
            name = request.run[0]
            if request.succeeded is None:
                if self.store.majority and (request.given_up or name not in self.store.cut):
                    found.append(("apply", name, "", number))
            elif name not in self.store.cut:
                found.append(("answer", name, "", number))
        return found

    def timers(self) -> list[Action]:
        return [("timer", name, "", 0) for name, member in self.members.items() if member.up and _has_timer(member)]

    def waiting_for_sync(self) -> list[Action]:
        """Of operators who let newcomers catch up that do not do so by themselves."""
        return [
            ("sync", name, "", 0)
            for name, member in self.members.items()
            if member.mastery is not None and any(not one.allowed for one in member.mastery.newcomers.values())
        ]

    # -- what happens

    def act(self, action: Action) -> None:
        what, name, other, number = action
        self.steps_taken += 1
        self.seen[what] += 1
        if self._say is not None:
            self._say(name, f"{what} {other} {number or ''}".rstrip() + self._details(action))
        member = self.members.get(name)
        try:
            _ACTIONS[what](self, name, other, number)
            if member is not None and member.up:
                member.end_turn()
                if what == "connect":
                    self.members[other].end_turn()
        except (PeerFault, InvariantBroken) as fault:
            self.promises.complain(UNDERSTOOD, f"{what} at {name}: {fault}")
            return
        if not self.seen_before:
            self.promises.look(member)

    def _details(self, action: Action) -> str:
        what, name, other, number = action
        if what in ("deliver", "hear amid"):
            link = self.links.between(name, other)
            assert link is not None
            return "".join(f"\n{'':22}{letter}" for letter in link.waiting[name][:number])
        if what in ("apply", "answer", "give up"):
            return f": {self.store.requests[number]}"
        return ""

    def deliver(self, name: str, sender: str, count: int) -> None:
        for _ in range(count):
            link = self.links.between(name, sender)
            if link is None or not link.waiting[name]:
                break
            self.members[name].receive(sender, link.waiting[name].pop(0))

    def notice(self, name: str, peer: str, _number: int) -> None:
        self.links.notice(peer, name)
        self.members[name].lost(peer)

    def connect(self, name: str, peer: str, _number: int) -> None:
        self.links.connect(name, peer)
        self.members[name].connected(peer)
        self.members[peer].connected(name)

    def flush(self, name: str, _other: str, _number: int) -> None:
        self.members[name].flushed()

    def timer(self, name: str, _other: str, _number: int) -> None:
        self.members[name].timer_fired()

    def hear(self, name: str, _other: str, _number: int) -> None:
        self.members[name].hear(self.store.news[name].pop(0))

    def hear_amid(self, name: str, sender: str, count: int) -> None:
        """In the turn in which letters came."""
        self.deliver(name, sender, count)
        self.hear(name, "", 0)

    def register(self, name: str, _other: str, _number: int) -> None:
        self.store.register(self.members[name].run)

    def propose_itself(self, name: str, _other: str, _number: int) -> None:
        self.members[name].propose_itself()

    def feed(self, name: str, other: str, count: int) -> None:
        self._mastery(name).newcomers[other].feed(count)

    def apply(self, _name: str, _other: str, number: int) -> None:
        before = self.store.ring
        self.store.apply(self.store.requests[number])
        self.promises.agreed(before, self.store.ring)

    def answer(self, name: str, _other: str, number: int) -> None:
        request = self.store.requests.pop(number)
        member = self.members[name]
        member.asks_store = False
        if request.succeeded:
            self.saw("agreed")
            member.see(request.version + 1, request.ring)
        else:
            member.refused()

    def picture(self) -> object:
        """All that matters for what may come, to be compared."""
        return (
            tuple(picture_of(member) for member in self.members.values()),
            self.links.picture(),
            self.store.picture(),
            self.promises.picture(),
        )

    # -- clients

    def publish(self, name: str, _other: str, number: int) -> None:
        """`number` is 2 for persistent ones, and 1 more on the upper level."""
        self.promises.published += 1
        self.members[name].seat.publish(number & 1, number & 2 != 0)

    def consume(self, name: str, other: str, number: int) -> None:
        mastery = self._mastery(name)
        if other == "lend":
            mastery.lend(number)
        elif other == "deliver":
            mastery.deliver()
        elif other == "ack":
            mastery.ack(sorted(mastery.out)[number % len(mastery.out)])
        elif other == "requeue":
            mastery.requeue(sorted(mastery.out)[number % len(mastery.out)])
        else:
            mastery.purge()

    def _mastery(self, name: str) -> Mastery:
        mastery = self.members[name].mastery
        assert mastery is not None
        return mastery

    # -- operators

    def want(self, mode: str, names: str, number: int) -> None:
        """`number` is twice how many are wanted, and 1 more if newcomers catch up by themselves."""
        self.store.want(Wanted(mode, number >> 1, tuple(names.split()), number & 1 != 0))

    def retreat(self, name: str, _other: str, _number: int) -> None:
        self.members[name].retreat()

    def sync(self, name: str, _other: str, _number: int) -> None:
        mastery = self._mastery(name)
        for newcomer in mastery.newcomers.values():
            newcomer.allowed = True
        mastery.look_at_newcomers()

    def cancel_sync(self, name: str, _other: str, _number: int) -> None:
        for newcomer in self._mastery(name).newcomers.values():
            newcomer.stop()

    # -- faults

    def give_up(self, name: str, _other: str, number: int) -> None:
        """The answer is lost, or comes too late; what was asked for may still come about."""
        request = self.store.requests[number]
        request.given_up = True
        if request.succeeded is not None:
            del self.store.requests[number]
        self.members[name].refused()

    def vanish(self, _name: str, _other: str, number: int) -> None:
        del self.store.requests[number]

    def crash(self, name: str, _other: str, kept: int) -> None:
        self.links.end(name)
        self.store.ended(name)
        member = self.members[name]
        member.die(min(kept, len(member.copy.written)))

    def restart(self, name: str, _other: str, _number: int) -> None:
        member = self.members[name]
        member.start()
        self._introduce(member)

    def lose(self, name: str, peer: str, _number: int) -> None:
        link = self.links.between(name, peer)
        assert link is not None
        link.broken = True

    def cut(self, name: str, peer: str, _number: int) -> None:
        self.links.cut.add((name, peer))

    def mend(self, name: str, peer: str, _number: int) -> None:
        self.links.cut.discard((name, peer))

    def halt_store(self, _name: str, _other: str, _number: int) -> None:
        self.store.majority = not self.store.majority

    def cut_store(self, name: str, _other: str, _number: int) -> None:
        self.store.cut ^= {name}

    def expire(self, name: str, _other: str, _number: int) -> None:
        self.store.expire(name)

    def watch_anew(self, name: str, _other: str, _number: int) -> None:
        self.store.watch_anew(name)


def _has_timer(member: Member) -> bool:
    return member.turn.next_timer_ms() > 0


_ACTIONS: dict[str, Callable[[RingWorld, str, str, int], None]] = {
    "deliver": RingWorld.deliver,
    "notice": RingWorld.notice,
    "connect": RingWorld.connect,
    "flush": RingWorld.flush,
    "timer": RingWorld.timer,
    "hear": RingWorld.hear,
    "hear amid": RingWorld.hear_amid,
    "register": RingWorld.register,
    "propose itself": RingWorld.propose_itself,
    "feed": RingWorld.feed,
    "apply": RingWorld.apply,
    "answer": RingWorld.answer,
    "publish": RingWorld.publish,
    "consume": RingWorld.consume,
    "give up": RingWorld.give_up,
    "vanish": RingWorld.vanish,
    "crash": RingWorld.crash,
    "restart": RingWorld.restart,
    "lose": RingWorld.lose,
    "cut": RingWorld.cut,
    "mend": RingWorld.mend,
    "halt store": RingWorld.halt_store,
    "cut store": RingWorld.cut_store,
    "expire": RingWorld.expire,
    "watch anew": RingWorld.watch_anew,
    "want": RingWorld.want,
    "retreat": RingWorld.retreat,
    "sync": RingWorld.sync,
    "cancel sync": RingWorld.cancel_sync,
}
