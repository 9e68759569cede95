"""The exchange types by name: which there are, what arguments they take, and the matcher that goes with each.

Not here: the matchers; the equivalence of a redeclared exchange (`session`).
"""

from typing import Final

from warren.errors import COMMAND_INVALID, PRECONDITION_FAILED, ChannelFault, ConnectionFault
from warren.model.terms import type_name
from warren.routing.consistent_hash import ConsistentHashMatcher
from warren.routing.direct import DirectMatcher
from warren.routing.exchange import Matcher
from warren.routing.fanout import FanoutMatcher
from warren.routing.headers import HeadersMatcher
from warren.routing.topic import TopicMatcher
from warren.wire.values import Table

DELAYED_TYPE: Final = "x-delayed-message"
EXCHANGE_TYPES: Final = ("direct", "fanout", "topic", "headers", "x-consistent-hash", DELAYED_TYPE)


def validate_exchange_type(name: str) -> None:
    if not name:
        raise ConnectionFault(COMMAND_INVALID, "invalid exchange type ''")
    if name not in EXCHANGE_TYPES:
        raise ConnectionFault(COMMAND_INVALID, f"unknown exchange type '{name}'")


def matcher_for(type: str, arguments: Table) -> Matcher:
    """The matcher of an exchange with these arguments, once they were found to suit its type."""
    if type == DELAYED_TYPE:
        return matcher_for(inner_type(arguments), arguments)
    if type == "direct":
        return DirectMatcher()
    if type == "fanout":
        return FanoutMatcher()
    if type == "topic":
        return TopicMatcher()
    if type == "headers":
        return HeadersMatcher()
    validate_exchange_type(type)
    return ConsistentHashMatcher(arguments)


def inner_type(arguments: Table) -> str:
    """How a delaying exchange routes what is due. It cannot delay again: that would never end."""
    name = arguments.get("x-delayed-type")
    if not isinstance(name, str) or name == DELAYED_TYPE:
        raise ChannelFault(PRECONDITION_FAILED, "Invalid argument, 'x-delayed-type' must be an existing exchange type")
    validate_exchange_type(name)
    return name


def alternate_of(vhost: str, name: str, arguments: Table) -> str:
    """The alternate exchange that an exchange's arguments name; empty if none."""
    if "alternate-exchange" not in arguments:
        return ""
    alternate = arguments["alternate-exchange"]
    if not isinstance(alternate, str):
        raise ChannelFault(
            PRECONDITION_FAILED,
            f"invalid type '{type_name(alternate)}' for arg 'alternate-exchange'"
            f" in exchange '{name}' in vhost '{vhost}'",
        )
    return alternate
