"""On which node a new queue is to live.

How that is decided is said by the queue's `x-queue-master-locator`, else by a policy's `queue-master-locator`, else by
the setting `queue_master_locator`:

- `client-local`: on the node that the client is connected to.
- `min-masters`: on the node with the fewest queues; among equals on the client's, if it is one of them, else the first.
- `random`: on any.

Only nodes that are reached from here are considered, and no witness; of these, where a policy wants mirrors on certain
nodes (`ha-mode` = `nodes`), only those it lists; if that leaves none, it is the client's node. If the client's node is
a witness, the node with the fewest queues stands in for it, and there is no place for the queue if none is reached. The
place of an exclusive queue is the client's node, always.

Not here: whether the values are allowed (`broker.queues.arguments`, `broker.policies.keys`), what the numbers are
(`broker.sharing`).
"""

from typing import Final, final

CLIENT_LOCAL: Final = "client-local"
MIN_MASTERS: Final = "min-masters"
RANDOM: Final = "random"
MASTER_LOCATORS: Final = (CLIENT_LOCAL, MIN_MASTERS, RANDOM)


@final
class NodeLoad:
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


def choose_node(locator: str, own: str, candidates: list[NodeLoad], wanted: list[str], draw: int) -> str:
    """The node's name, empty if there is none. `wanted` are those a policy lists, `draw` is a number that chance gave,
    of any size."""
    reached = [one.name for one in candidates]
    listed = [name for name in wanted if name in reached]
    considered = [one for one in candidates if one.name in listed] if listed else candidates
    here = own in listed or not listed
    if not considered:
        return ""
    if locator == CLIENT_LOCAL and not here:
        # those that are to hold it come before the one that asked for it
        return listed[0]
    if (locator == CLIENT_LOCAL or (wanted and not listed)) and own in reached:
        return own
    if locator == RANDOM:
        names = sorted([one.name for one in considered])
        return names[draw % len(names)]
    fewest = min([one.queues for one in considered])
    least = sorted([one.name for one in considered if one.queues == fewest])
    return own if own in least else least[0]
