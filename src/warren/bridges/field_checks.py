"""Checks of a definition's fields, with RabbitMQ's error texts in RabbitMQ's order.

RabbitMQ reports unknown fields first, then the known ones from the last of the table to the first. The texts are the
same here, except where RabbitMQ prints the internals of its URI parser.

Invariant: no text quotes a password. RabbitMQ prints the values of fields, unknown ones included, and a misspelt field
may hold a URI. So texts of unknown fields, and anything that looks like a login, are replaced by `...`.

Not here: the fields themselves (`bridges.shovel_definition`, `bridges.federation.upstreams`).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from warren.bridges.connections import FILES_REFUSED, names_files, normalized_uri, parse_local_uri
from warren.broker.model.erlang_terms import json_term
from warren.client.errors import UriError
from warren.client.uri import parse_uri
from warren.wire.field_tables import encode_table
from warren.wire.scalars import SHORTSTR_BYTES_MAX

TIMESTAMP_MAX: Final = 2**64 - 1

Check = Callable[[str, object], list[str]]
"""Takes a field's name and value, returns the errors."""


@dataclass(frozen=True)
class DefinitionField:
    """One field of a definition."""

    name: str
    check: Check
    mandatory: bool = False


def field_errors(name: str, fields: Sequence[DefinitionField], value: object) -> list[str]:
    """All errors of an object. RabbitMQ writes an empty object as an empty list."""
    if value == []:
        value = {}
    if not isinstance(value, dict):
        return [f"{name} not a list {quoted(value)}"]
    reasons: list[str] = []
    known = {field.name for field in fields}
    if unknown := [(key, _masked(value[key], lambda text: True)) for key in sorted(value) if key not in known]:
        start = "Unrecognised terms "
        reasons.append(f"{start}{json_term(unknown, len(start))} in {name}")
    for field in reversed(fields):
        if field.name in value:
            reasons += field.check(field.name, value[field.name])
        elif field.mandatory:
            reasons.append(f'Key "{field.name}" not found in {name}')
    return reasons


def quoted(value: object) -> str:
    """A value as RabbitMQ prints it, without anything that may be a password."""
    return json_term(_masked(value, lambda text: "@" in text))


def _masked(value: object, hides: Callable[[str], bool]) -> object:
    if isinstance(value, str):
        return "..." if hides(value) else value
    if isinstance(value, list):
        return [_masked(item, hides) for item in value]
    if isinstance(value, dict):
        return {name: _masked(item, hides) for name, item in value.items()}
    return value


def text(name: str, value: object) -> list[str]:
    return [] if isinstance(value, str) else [f"{name} should be binary, actually was {quoted(value)}"]


def short_text(name: str, value: object) -> list[str]:
    """Text of at most 255 bytes: AMQP stores the length of names, keys and most properties in one byte."""
    if not isinstance(value, str):
        return text(name, value)
    try:
        size = len(value.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return [f"{name} should be text, actually had characters that UTF-8 cannot write"]
    return [] if size <= SHORTSTR_BYTES_MAX else [f"{name} should have at most 255 bytes, actually had {size}"]


def number(name: str, value: object) -> list[str]:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return [] if is_one else [f"{name} should be a number, actually was {quoted(value)}"]


def boolean(name: str, value: object) -> list[str]:
    return [] if isinstance(value, bool) else [f"{name} should be boolean, actually was {quoted(value)}"]


def whole_number(lowest: int, highest: int) -> Check:
    """A number in AMQP's range. RabbitMQ accepts any number and fails later."""

    def check(name: str, value: object) -> list[str]:
        reasons = number(name, value)
        if not reasons and not (isinstance(value, int) and lowest <= value <= highest):
            reasons = [f"{name} should be a whole number from {lowest} to {highest}, actually was {quoted(value)}"]
        return reasons

    return check


def seconds(name: str, value: object) -> list[str]:
    """A duration; fractions are allowed."""
    reasons = number(name, value)
    if not reasons and isinstance(value, int | float) and not 0 <= value <= 86_400 * 365:
        reasons = [f"{name} should be a number of seconds, 0 or more, actually was {quoted(value)}"]
    return reasons


def timestamp(name: str, value: object) -> list[str]:
    """Seconds since 1970, in AMQP's 64 bits."""
    reasons = number(name, value)
    if not reasons and isinstance(value, int | float) and not 0 <= value <= TIMESTAMP_MAX:
        reasons = [f"{name} should be a number from 0 to {TIMESTAMP_MAX}, actually was {value}"]
    return reasons


def one_of(*choices: str) -> Check:
    def check(name: str, value: object) -> list[str]:
        if value in choices:
            return []
        if not isinstance(value, str):
            return text(name, value)
        return [f"{name} should be one of {json_term(list(choices))}, actually was {quoted(value)}"]

    return check


def arguments(name: str, value: object) -> list[str]:
    """Arguments of a queue or a consumer: an object, or the empty list that RabbitMQ writes for an empty object."""
    if value == []:
        return []
    if not isinstance(value, dict):
        return [f"{name} should be an object of arguments, actually was {quoted(value)}"]
    try:
        encode_table(value)
    except ValueError as trouble:
        return [f"{name} should be arguments that AMQP can carry: {trouble}"]
    return []


def uris(name: str, value: object) -> list[str]:
    """One AMQP URI or a list of them; the first bad one is reported."""
    found = value if isinstance(value, list) else [value]
    for uri in found:
        if not isinstance(uri, str):
            return [f"{name} should be list, actually was {quoted(uri)}"]
        try:
            parse_uri(normalized_uri(uri, "/"))
        except UriError as error:
            return [f'"{_shown(uri)}" not a valid URI: {error}']
    return [] if found else [f"{name} should name at least one URI"]


def _shown(uri: str) -> str:
    """The part of an unreadable URI that cannot belong to a password."""
    scheme, separator, _rest = uri.rpartition("@")[0].partition("://")
    before = f"{scheme}{separator}" if separator else ""
    return (before + uri.rpartition("@")[2] if "@" in uri else uri).partition("?")[0]


def uri_list(value: object) -> list[str]:
    """The URIs of a field that passed the checks."""
    return [str(uri) for uri in value] if isinstance(value, list) else [str(value)]


def author_refusal(uris: Iterable[str], default_vhost: str, author: str, vhosts: Collection[str]) -> str:
    """Why a user who is no administrator may not define a bridge with these URIs; empty if there is no reason.

    The same is checked when the bridge connects. `vhosts` are the virtual hosts that the user may enter.
    """
    for uri in uris:
        here = parse_local_uri(uri)
        if here is not None and here.user not in ("", author):
            return f'user "{author}" may not connect as user "{here.user}"'
        # other checks report an invalid URI
        with suppress(UriError):
            if names_files(uri):
                return FILES_REFUSED
    return vhost_refusal(uris, default_vhost, author, vhosts)


def vhost_refusal(uris: Iterable[str], default_vhost: str, author: str, vhosts: Collection[str]) -> str:
    """The same for any user: a bridge that connects to this broker enters with its author's permissions."""
    for here in [parse_local_uri(uri) for uri in uris]:
        if here is not None and (here.vhost or default_vhost) not in vhosts:
            return f'user "{author}" may not connect to vhost "{here.vhost or default_vhost}"'
    return ""
