"""Other names for arguments of a `queue.declare`: `mirrored`, `copy_from` and `routing_key`.

They are replaced at the door. What is validated, compared and written down has the `x-` names alone, so two
declarations that say the same in different words ask for the same queue.

Not here: whether the values can be accepted (`queue.arguments`).
"""

from typing import Final

from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.model.named_copies import COPY_FROM, COPY_ROUTING_KEY
from warren.model.terms import type_name
from warren.wire.values import Table

MIRRORED: Final = "mirrored"
HA_MODE: Final = "x-ha-mode"
ALIASES: Final = ((MIRRORED, HA_MODE), ("copy_from", COPY_FROM), ("routing_key", COPY_ROUTING_KEY))


def without_aliases(queue_name: str, vhost: str, arguments: Table) -> Table:
    """The same arguments under the names everybody knows; a `ChannelFault` if one is given twice, and differently."""
    given = [(alias, name) for alias, name in ALIASES if alias in arguments]
    if not given:
        return arguments
    where = f"queue '{queue_name}' in vhost '{vhost}'"
    renamed = dict(arguments)
    for alias, name in given:
        value = renamed.pop(alias)
        if alias == MIRRORED:
            value = _mode(value, where)
        if name in arguments and arguments[name] != value:
            raise ChannelFault(PRECONDITION_FAILED, f"invalid arg '{alias}' for {where}: \"{name} says otherwise\"")
        if value is not None:
            renamed[name] = value
    return renamed


def _mode(value: object, where: str) -> str | None:
    """The mode that is meant: true is for all nodes, false for no mirrors."""
    if isinstance(value, bool):
        return "all" if value else None
    if isinstance(value, str):
        return value
    raise ChannelFault(
        PRECONDITION_FAILED, f"invalid arg '{MIRRORED}' for {where}: {{unacceptable_type,{type_name(value)}}}"
    )
