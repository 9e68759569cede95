"""What a virtual host asks of the node it is on: where queues live, and who carries dead letters out.

Not here: the virtual host (`broker.vhost`), dead letters (`broker.dead_letters`), clusters (`broker.clustering`).
"""

from abc import abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import trait

from warren.model.ports import QueuePort
from warren.store.topology_definitions import QueueDefinition

if TYPE_CHECKING:
    from warren.broker.vhost import Vhost


class Undertaker:
    """Carries dead letters out."""

    @abstractmethod
    def carry_out_of(self, queue: QueuePort, vhost: "Vhost") -> None:
        """Send on everything that died in this queue and waits."""


@trait
class Whereabouts:
    """Where the queues of a cluster live."""

    @abstractmethod
    def elsewhere(self, definition: QueueDefinition, queue_id: int) -> QueuePort | None:
        """What stands in for a queue of another node, or of several; nothing for one that lives here alone."""

    @abstractmethod
    def changed(self, queue: QueuePort, definition: QueueDefinition) -> None:
        """A queue lives on another node from now on, or is held by others."""

    @abstractmethod
    def forget(self, queue: QueuePort) -> None:
        """A queue that something stands in for is gone."""

    @abstractmethod
    def policies_changed(self, vhost: str) -> None:
        """Other policies may count for the queues of that virtual host."""
