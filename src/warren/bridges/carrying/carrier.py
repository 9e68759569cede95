"""Carries messages between two connections, until one of them is lost or all that was wanted is done.

Not here: what is acked when (`carrying.settling`).
"""

from warren.bridges.bridge import Life
from warren.bridges.carrying.tap import Tap
from warren.bridges.carrying.terms import Rewrite, Terms
from warren.client.connection import Connection


async def carry(
    source: Connection,
    queue: str,
    destination: Connection,
    rewrite: Rewrite,
    terms: Terms,
    life: Life,
    tap: Tap | None = None,
) -> None:
    """Take from `queue` of the source, and publish what `rewrite` makes of it to the destination.

    Returns when `terms.limit` messages are settled. Raises a `ClientError` when either end is lost, the queue is gone
    or the destination refuses a publish by closing its channel; what was not acked comes again in the next life.
    It opens channels of its own on both connections, and leaves the connections to who opened them.
    """
    raise NotImplementedError
