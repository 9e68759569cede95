"""What a node proposes for its rings in one turn goes to the store together.

When a node with a thousand masters is lost, or stops, its mirrors propose as many rings at once. In transactions of
their own they would take seconds. Together they come about or not; if one of them is outdated the others are proposed
again, each for itself, so that none waits for another's sake twice.

A ring is made of the version that was known at that moment. If another version comes before the turn ends, what was
proposed upon the earlier one is dropped: whoever wanted it hears of the later one, and thinks again. That holds as soon
as the node knows of it, though the part may not have been told: the store is asked to replace what the node knows, so
an earlier epoch would take the place of a later one.

Not here: what is proposed, and what comes of it (`broker.mirrors.part`), transactions (`broker.sharing.proposal`).
"""

from typing import TYPE_CHECKING, Final, final

from warren.broker.agreement import Agreement
from warren.model.agreeing import AgreementWaiter
from warren.model.rings import Ring
from warren.store.plan import Plan
from warren.store.topology_definitions import QueueDefinition

if TYPE_CHECKING:
    from warren.broker.mirrors.part import Part

TOGETHER_MAX: Final = 50


@final
class RingProposal:
    """Another ring for a queue."""

    def __init__(self, part: "Part", ring: Ring) -> None:
        self.part: Part = part
        self.ring: Ring = ring
        self.basis: QueueDefinition = part.definition

    def stands(self) -> bool:
        """Whether it was made of the version that is known, to the part and to the node."""
        part = self.part
        return part.definition is self.basis and not part.over and not part.is_behind


@final
class RingProposals:
    """One node's, in one turn."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreement: Agreement = agreement
        self._gathered: list[RingProposal] = []

    def add(self, part: "Part", ring: Ring) -> None:
        self._gathered.append(RingProposal(part, ring))

    def waiting(self) -> bool:
        return len(self._gathered) > 0

    def make(self) -> None:
        """Propose what was gathered."""
        latest = {proposal.part: proposal for proposal in self._gathered if proposal.stands()}
        self._gathered = []
        gathered = list(latest.values())
        for start in range(0, len(gathered), TOGETHER_MAX):
            self._propose(gathered[start : start + TOGETHER_MAX])

    def make_each(self, proposals: list[RingProposal]) -> None:
        """Propose each for itself, unless it is outdated."""
        for proposal in proposals:
            if proposal.stands():
                self._propose([proposal])

    def _propose(self, proposals: list[RingProposal]) -> None:
        plan = Plan()
        for proposal in proposals:
            plan.put(proposal.basis.with_ring(proposal.ring))
        self._agreement.agree(plan, Proposed(self, proposals))


@final
class Proposed(AgreementWaiter):
    """What was proposed together."""

    def __init__(self, owner: RingProposals, proposals: list[RingProposal]) -> None:
        self._owner: RingProposals = owner
        self._proposals: list[RingProposal] = proposals

    def agreed(self) -> None:
        """It is heard of as every change is."""

    def outdated(self) -> None:
        if len(self._proposals) > 1:
            self._owner.make_each(self._proposals)
        else:
            self._fail()

    def failed(self, reason: str) -> None:
        self._fail()

    def _fail(self) -> None:
        for proposal in self._proposals:
            proposal.part.proposal_failed(proposal.ring)
