"""Through which brokers a message or a binding came, and how much further it may go. Pure.

`x-received-from` is a message's list of tables, the last broker first, `x-bound-from` that of a binding. A broker is
known by `cluster-name` and `vhost`. What clients put there instead of such a list is nobody's, and is replaced.

A binding counts down: it may travel as far against the stream as a message could travel along it, so the most modest
`max-hops` on its way decides.
"""

from typing import Final

from warren.wire.values import Table

RECEIVED_FROM: Final = "x-received-from"
BOUND_FROM: Final = "x-bound-from"

Hops = list[object]


def hops_of(table: Table, header: str) -> Hops | None:
    """The list under that header, if there is one."""
    found = table.get(header)
    return found if isinstance(found, list) else None


def may_be_forwarded(received_from: Hops | None, max_hops: int, cluster_name: str, vhost: str) -> bool:
    """Whether a message that came through these brokers may come to that one."""
    if received_from is None:
        return True
    return len(received_from) < max_hops and not is_among(cluster_name, vhost, received_from)


def is_among(cluster_name: str, vhost: str, hops: Hops) -> bool:
    return any(
        isinstance(hop, dict) and hop.get("cluster-name") == cluster_name and hop.get("vhost") == vhost for hop in hops
    )


def bound_from(arguments: Table, max_hops: int, upstream_name: str, upstream_vhost: str, here: Table) -> Table | None:
    """The arguments that a binding has upstream; None if it goes no further. `here` says who wants it."""
    before = hops_of(arguments, BOUND_FROM)
    hops_left = max_hops
    if before is not None:
        if is_among(upstream_name, upstream_vhost, before):
            return None
        hops_left = min(_hops_left(before) - 1, max_hops)
    if hops_left < 1:
        return None
    return {**arguments, BOUND_FROM: [{**here, "hops": hops_left}, *(before or [])]}


def _hops_left(before: Hops) -> int:
    last = before[0] if before else None
    hops = last.get("hops") if isinstance(last, dict) else None
    return hops if isinstance(hops, int) else 1
