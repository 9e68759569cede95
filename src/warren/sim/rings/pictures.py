"""What there is to know of a pretend node and its machines, as values that can be compared.

Not here: who compares (`sim.rings.explore`).
"""

from warren.mirroring.master import Master
from warren.mirroring.mirror import Mirror
from warren.mirroring.steps import Step
from warren.sim.rings.mastery import Mastery
from warren.sim.rings.member import Member


def picture_of(member: Member) -> object:
    if not member.up:
        return (member.incarnation, member.copy.picture())
    mastery = member.mastery
    return (
        member.incarnation,
        member.copy.picture(),
        member.version,
        tuple(sorted(member.living.items())),
        tuple(sorted(member.peers)),
        member.following,
        member.attempt,
        member.frozen,
        (member.wanted, member.retreats),
        member.asks_store,
        tuple(member.early),
        tuple(number - member.copy.written_no for number, _waiters in member.batches),
        int(member.turn.now_ms),
        member.turn.next_timer_ms(),
        member.seat.picture(),
        _mirror(member.mirror),
        None if mastery is None else (_mastery(mastery), _master(mastery.master)),
    )


def _mirror(mirror: Mirror) -> object:
    return (
        mirror.state,
        mirror.whole,
        int(mirror.end),
        int(mirror.settled),
        _steps(mirror.steps),
        tuple(mirror.epochs.beginnings),
        tuple(sorted(mirror.marks.runs.items())),
        int(mirror._safe),
        tuple((int(mark.end), mark.caught_up) for mark in mirror._flushes),
        mirror._void,
        mirror._unflushed,
    )


def _master(master: Master) -> object:
    return (
        repr(master.ring),
        int(master.end),
        int(master.settled),
        _steps(master.steps),
        tuple(master.epochs.beginnings),
        tuple(sorted(master.marks.runs.items())),
        tuple(
            (node, one.incarnation, int(one.began), int(one.safe), one.complete)
            for node, one in master.followers.items()
        ),
        int(master._own_safe),
        tuple(int(number) for number in master._flushes),
        tuple(repr(ring) for ring in master._proposals),
        master._under_way,
        master._resting,
        master._patience_over,
        (tuple(master._wanted), master._heir),
    )


def _mastery(mastery: Mastery) -> object:
    return (
        mastery.epoch,
        mastery.is_open,
        mastery.next_position,
        (mastery.lent_before, mastery.lent, mastery.asked),
        (frozenset(mastery.arrived), frozenset(mastery.out), frozenset(mastery.handed)),
        (tuple(sorted(mastery.gone.items())), tuple(sorted(mastery.said.items()))),
        (tuple(mastery.joins.items()), tuple(mastery.seats.items()), tuple(mastery.confirmed.items())),
        tuple((node, one.picture()) for node, one in mastery.newcomers.items()),
    )


def _steps(steps: list[Step]) -> object:
    return tuple((int(step.number), int(step.epoch), step.data) for step in steps)
