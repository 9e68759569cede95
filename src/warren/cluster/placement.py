"""On which node a new queue is to live.

How that is decided is said by the queue's `x-queue-master-locator`, else by a policy's `queue-master-locator`, else by
the setting `queue_master_locator`:

- `client-local`: on the node that the client is connected to.
- `min-masters`: on the node with the fewest queues; among equals on the client's, if it is one of them, else the first.
- `random`: on any.

Only nodes that are reached from here are considered; of these, where a policy wants mirrors on certain nodes
(`ha-mode` = `nodes`), only those it lists; if that leaves none, it is the client's node. The place of an exclusive
queue is the client's node, always.

Not here: whether the values are allowed (`queue.arguments`, `policy.keys`), what the numbers are (`broker.sharing`).
"""

from typing import Final, final

CLIENT_LOCAL: Final = "client-local"
MIN_MASTERS: Final = "min-masters"
RANDOM: Final = "random"
MASTER_LOCATORS: Final = (CLIENT_LOCAL, MIN_MASTERS, RANDOM)


@final
class Candidate:
    """A node that is reached, and how many queues it has."""

    def __init__(self, name: str, queues: int) -> None:
        self.name: str = name
        self.queues: int = queues


def locator_of(argument: object, policy: object, setting: str) -> str:
    """Which of the three counts; what is none is passed over."""
    for wanted in (argument, policy):
        if isinstance(wanted, str) and wanted in MASTER_LOCATORS:
            return wanted
    return setting if setting in MASTER_LOCATORS else CLIENT_LOCAL


def place(locator: str, own: str, candidates: list[Candidate], wanted: list[str], draw: int) -> str:
    """The node's name. `wanted` are those a policy lists, `draw` is a number that chance gave, of any size."""
    considered = [one for one in candidates if one.name in wanted] if wanted else candidates
    if locator == CLIENT_LOCAL or not considered:
        return own
    names = sorted([one.name for one in considered])
    if locator == RANDOM:
        return names[draw % len(names)]
    fewest = min([one.queues for one in considered])
    least = sorted([one.name for one in considered if one.queues == fewest])
    return own if own in least else least[0]
