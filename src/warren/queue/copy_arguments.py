"""Whether what a declaration says of the queues to copy can be accepted.

Not here: the other arguments (`queue.arguments`), what these mean (`model.named_copies`).
"""

from typing import Final

from warren.model.named_copies import COPY_FROM, SOURCE_NAME, SOURCE_ROUTING_KEY, copy_sources
from warren.model.terms import type_name
from warren.wire.values import Table

OCTETS_MAX: Final = 255
"""Of a name, and of a routing key: both are short strings."""


def copy_from_refusal(value: object, arguments: Table) -> str:
    """Why the queues to copy cannot be accepted, in Erlang's notation; empty if they can."""
    if not isinstance(value, list):
        return _source_refusal(value)
    if not value:
        return '"list of queues to copy must be non-empty"'
    for source in value:
        refusal = _source_refusal(source)
        if refusal:
            return refusal
    return ""


def copy_routing_key_refusal(value: object, arguments: Table) -> str:
    """The same of the pattern for those of them that have none of their own."""
    if COPY_FROM not in arguments:
        return "routing_key_but_no_copy_from_defined"
    return _pattern_refusal(value)


def own_copy_refusal(queue_name: str, arguments: Table) -> str:
    """The same of what depends on which queue it is that copies."""
    copies_itself = any(source.name == queue_name for source in copy_sources(arguments))
    return '"a queue cannot copy itself"' if copies_itself else ""


def _source_refusal(source: object) -> str:
    if not isinstance(source, dict):
        return _name_refusal(source)
    for key in source:
        if key not in (SOURCE_NAME, SOURCE_ROUTING_KEY):
            return f"\"unknown key '{key}' of a queue to copy\""
    if SOURCE_NAME not in source:
        return f'"{SOURCE_NAME} of a queue to copy is missing"'
    refusal = _name_refusal(source[SOURCE_NAME])
    if not refusal and SOURCE_ROUTING_KEY in source:
        refusal = _pattern_refusal(source[SOURCE_ROUTING_KEY])
    return refusal


def _name_refusal(name: object) -> str:
    if not isinstance(name, str):
        return f"{{unacceptable_type,{type_name(name)}}}"
    return _length_refusal(name) if name else '"name of a queue to copy must be non-empty"'


def _pattern_refusal(pattern: object) -> str:
    return _length_refusal(pattern) if isinstance(pattern, str) else f"{{unacceptable_type,{type_name(pattern)}}}"


def _length_refusal(text: str) -> str:
    return "" if len(text.encode("utf-8", "surrogateescape")) <= OCTETS_MAX else "longer_than_255_octets"
