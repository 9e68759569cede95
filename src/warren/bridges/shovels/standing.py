"""How shovels stand, in rows as RabbitMQ shows them.

What it does not show: why one that is tried again broke (`reason`), how many messages it has carried since it was
defined (`forwarded`), and how many may have arrived twice (`uncertain`).

Not here: who asks (`admin`).
"""

import time
from collections.abc import Iterable

from warren.bridges.carrying.terms import ON_CONFIRM
from warren.bridges.keeper import RUNNING, Keeper
from warren.bridges.shovels.shovel import Shovel

Row = dict[str, object]


def rows(node: str, keepers: Iterable[Keeper]) -> list[Row]:
    """One for each shovel of a node."""
    return [_row(node, keeper.bridge, keeper) for keeper in keepers if isinstance(keeper.bridge, Shovel)]


def _row(node: str, shovel: Shovel, keeper: Keeper) -> Row:
    row: Row = {
        "node": node,
        "timestamp": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(keeper.since)),
        "name": shovel.definition.name,
        "vhost": shovel.definition.vhost,
        "type": "dynamic",
        "state": keeper.state,
    }
    if keeper.state == RUNNING:
        row |= keeper.facts
    elif keeper.reason:
        row["reason"] = keeper.reason
    tally = keeper.tally
    forwarded = tally.confirmed if shovel.definition.ack_mode == ON_CONFIRM else tally.published
    return row | {"forwarded": forwarded, "uncertain": tally.uncertain}
