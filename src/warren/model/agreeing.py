"""Whoever waits for others to agree to something.

Not here: what is planned (`store.plan`), who agrees (`broker.agreement`).
"""

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from warren.errors import PRECONDITION_FAILED, ChannelFault


@mypyc_attr(allow_interpreted_subclasses=True)
class AgreementWaiter:
    """Whoever wants to know what became of a plan; told once, and never within `Agreement.agree`."""

    @abstractmethod
    def agreed(self) -> None:
        """The plan came about, and whoever looks finds it so."""

    @abstractmethod
    def outdated(self) -> None:
        """Something that the plan relies on has changed, and is to be seen: plan again."""

    @abstractmethod
    def failed(self, reason: str) -> None:
        """It is not known to have come about, for this reason."""


def could_not_agree(reason: str) -> ChannelFault:
    """What a client is told whose wish failed."""
    return ChannelFault(PRECONDITION_FAILED, f"the nodes of the cluster could not agree: {reason}")
