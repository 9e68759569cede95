"""Why a mirrored queue has another master, as far as a node can tell.

Not here: who becomes it (`mirroring.succession`), the story this is told in (`mirroring.story`).
"""

from typing import TYPE_CHECKING

from warren.model.rings import Run

if TYPE_CHECKING:
    from warren.broker.mirrors.rings import Rings


def why_another(rings: "Rings", run: Run | None) -> str:
    """What became of the master before, which was this run."""
    if run is None:
        return "the queue was declared"
    if run[0] == rings.own_run[0]:
        return f"{run[0]} was master before, and has restarted"
    if rings.has_ended(run):
        return f"{run[0]} has stopped"
    if rings.incarnation_reached(run[0]) == run[1]:
        return f"{run[0]} handed it over"
    return f"{run[0]} is not reached"
