"""What a resource demands of whoever asks: each level answers with the reason for a refusal, or nothing.

A virtual host that does not exist is nobody's secret: the resource answers 404.

Not here: the tags (`http.visitor`), permissions on single queues and exchanges, which the broker checks.
"""

from collections.abc import Callable

from warren.admin.http.call import Call

Level = Callable[[Call], str]

_NO_VHOST = "User not authorised to access virtual host"
_NO_OBJECT = "User not authorised to access object"


def manager(call: Call) -> str:
    """Any of the tags that open the API."""
    return ""


def monitor(call: Call) -> str:
    return "" if call.visitor.is_monitor else "Not monitor user"


def administrator(call: Call) -> str:
    return "" if call.visitor.is_administrator else "Not administrator user"


def in_vhost(call: Call) -> str:
    """An administrator, or somebody with permissions in the virtual host of the path, if it names one."""
    return "" if call.visitor.is_administrator or _enters_vhost(call) else _NO_VHOST


def in_vhost_or_monitor(call: Call) -> str:
    return "" if call.visitor.is_monitor or _enters_vhost(call) else _NO_VHOST


def policymaker(call: Call) -> str:
    """A policymaker in the virtual host of the path, or an administrator."""
    visitor = call.visitor
    if visitor.is_administrator or (visitor.is_policymaker and _enters_vhost(call)):
        return ""
    return _NO_OBJECT


def any_policymaker(call: Call) -> str:
    """For what belongs to no virtual host."""
    return "" if call.visitor.is_policymaker else _NO_OBJECT


def _enters_vhost(call: Call) -> bool:
    name = call.params.get("vhost")
    return name is None or name in call.visitor.vhosts or name not in call.station.broker.vhosts
