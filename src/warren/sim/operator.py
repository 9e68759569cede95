"""An operator who changes a policy now and then, and remembers what was answered.

The policies change how every queue works (what goes to disk, what is counted and timed) and drop nothing, so whatever
the clients were promised holds with them as without. An answered change outlives the node; one that was not answered
when the node died may have been made or not, and the next life shows which.

Not here: what policies do to messages (`tests`).
"""

from random import Random
from typing import TYPE_CHECKING

from warren.model.commands import Command
from warren.model.effects import Answered
from warren.model.events import Commanded
from warren.policy.commands import ClearPolicy, SetPolicy
from warren.policy.policy import Policy
from warren.sim.checkers import Checker
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.sim.node import Node
    from warren.sim.world import World

NAME = "changing"
FAR_OFF = 1_000_000_000
DEFINITIONS: tuple[Table | None, ...] = (
    None,
    {"queue-mode": "lazy"},
    {"queue-mode": "default"},
    {"max-length": FAR_OFF, "max-length-bytes": FAR_OFF},
    {"message-ttl": FAR_OFF},
    {"expires": FAR_OFF, "delivery-limit": FAR_OFF},
)
"""What the policy says in turn; None: it is cleared."""


class Operator(Checker):
    """Gives one command after another until the world is calm."""

    rule = "answered changes of policy are kept"

    def __init__(self, world: "World") -> None:
        self._world = world
        self._chance = Random(f"{world.seed}/operator")
        self._every_ms = self._chance.choice((50, 500, 1_000_000))
        self._calm = False
        self._ticket = 0
        self._waiting = False
        # what the policy may say: more than one until the outcome of a change is known
        self._possible: list[Table | None] = [None]
        self._wait()

    def calm(self) -> None:
        """No more changes."""
        self._calm = True

    def command_answered(self, effect: Answered) -> None:
        if effect.ticket != self._ticket:
            return
        self._waiting = False
        if effect.refusal:
            self._world.checkers.complain(self.rule, f"a good command was refused: {effect.reason}")
        self._possible = self._possible[-1:]
        self._world.history.seen["policy changed"] += 1

    def recovered(self, node: "Node") -> str:
        self._waiting = False
        policy = node.broker.policies.policies.get(("/", NAME))
        found = None if policy is None else policy.definition
        if found not in self._possible:
            return f"{node.name} finds {found}, which nobody asked for last: {self._possible}"
        self._possible = [found]
        return ""

    def _wait(self) -> None:
        self._world.schedule(self._chance.randint(1, 2 * self._every_ms), self._act)

    def _act(self) -> None:
        if self._calm:
            return
        node = self._chance.choice(self._world.nodes)
        if node.up and not self._waiting:
            self._ticket += 1
            self._waiting = True
            node.add(Commanded(self._ticket, self._command()))
        self._wait()

    def _command(self) -> Command:
        wanted = self._chance.choice([one for one in DEFINITIONS if one != self._possible[-1]])
        self._possible.append(wanted)
        if wanted is None:
            return ClearPolicy("/", NAME, False)
        return SetPolicy(Policy("/", NAME, "", "queues", dict(wanted)), False)
