"""Which queues would move where, for nodes to have about equally many.

A queue can move only where there is a copy of it: to move a queue is to let another copy lead. A queue without copies
stays where it is and is not counted, as in RabbitMQ. Of a node that has more than its share the shortest queue goes
first, to the node with the fewest among those that have a copy and less than their share.

Invariants: nobody ends with more than its share who had no more before; every step makes somebody's surplus smaller,
so there is an end.

Not here: letting another copy lead.
"""

from typing import final


@final
class MovableQueue:
    """A queue, where it lives, on which other nodes there are copies of it, and how long it is."""

    def __init__(self, key: str, home: str, copies: list[str], length: int) -> None:
        self.key: str = key
        self.home: str = home
        self.copies: list[str] = copies
        self.length: int = length


@final
class BalancePlan:
    """What is to be moved, in order: keys and the nodes they go to; and how many each node then has."""

    def __init__(self, nodes: list[str]) -> None:
        self.moves: list[tuple[str, str]] = []
        self.counts: dict[str, int] = dict.fromkeys(sorted(nodes), 0)


def plan_moves(queues: list[MovableQueue], nodes: list[str]) -> BalancePlan:
    """A plan for queues of whatever kind on these nodes, all of which are reached."""
    balance = BalancePlan(nodes)
    counts = balance.counts
    movable = [queue for queue in queues if queue.copies and queue.home in counts]
    for queue in movable:
        counts[queue.home] += 1
    share = -(-len(movable) // max(1, len(counts)))
    for queue in sorted(movable, key=_by_length):
        if counts[queue.home] > share:
            target = _target(queue, counts, share)
            if target:
                counts[queue.home] -= 1
                counts[target] += 1
                balance.moves.append((queue.key, target))
    return balance


def _by_length(queue: MovableQueue) -> tuple[int, str]:
    return queue.length, queue.key


def _target(queue: MovableQueue, counts: dict[str, int], share: int) -> str:
    fitting = [(counts[name], name) for name in queue.copies if name in counts and counts[name] < share]
    return min(fitting)[1] if fitting else ""
