"""From a payload to the message that is sent, with what a call says otherwise.

Content type and encoding are the converter's; a content type that the call's own properties name stands in its place,
because a format may be known by a more exact one (`application/vnd.order+json`).

Invariants: properties that a caller gave are copied, never changed; what AMQP could not carry is refused here, so that
the messages before it in a batch are not sent either.

Not here: sending (`template.template`).
"""

from dataclasses import dataclass
from typing import Final, TypedDict

from warren.client.converters import Converter, body_of
from warren.client.errors import CannotConvert
from warren.client.machine.publishing import Message
from warren.client.template.identity import new_message_id
from warren.client.transport import Outgoing
from warren.wire.properties import Properties, encode_header_payload
from warren.wire.values import Table

KEY_HEADER: Final = "x-key"
"""The header with the key within which order is kept."""

NAME_BYTES_MAX: Final = 255
PERSISTENT: Final = 2
TRANSIENT: Final = 1


class Overrides(TypedDict, total=False):
    """What a call may say otherwise; `key` is the ordering key, a header like those in `headers`."""

    exchange: str
    routing_key: str
    converter: Converter
    mandatory: bool
    persistent: bool
    message_id: str
    key: str
    headers: Table
    properties: Properties


@dataclass(frozen=True, slots=True)
class Standing:
    """What is fixed for all calls."""

    exchange: str
    routing_key: str
    converter: Converter
    mandatory: bool
    persistent: bool

    def __post_init__(self) -> None:
        _check_name("exchange", self.exchange)
        _check_name("routing key", self.routing_key)


def prepared(payload: object, standing: Standing, overrides: Overrides) -> Outgoing:
    """The message that a payload becomes, and where it goes."""
    if not overrides:
        return _plain(payload, standing)
    if unknown := sorted(set(overrides) - Overrides.__optional_keys__):
        raise TypeError(f"a template's call takes {', '.join(sorted(Overrides.__optional_keys__))}, not {unknown[0]}")
    there = Standing(
        overrides.get("exchange", standing.exchange),
        overrides.get("routing_key", standing.routing_key),
        overrides.get("converter", standing.converter),
        overrides.get("mandatory", standing.mandatory),
        overrides.get("persistent", standing.persistent),
    )
    outgoing = _plain(payload, there)
    properties = _merged(outgoing.message.properties or Properties(), overrides)
    _check_encodes(properties)
    return Outgoing(Message(outgoing.message.body, properties), there.exchange, there.routing_key, there.mandatory)


def message_id_of(outgoing: Outgoing) -> str:
    """The id of a message; empty if it was prepared elsewhere and has none."""
    properties = outgoing.message.properties
    return (properties.message_id or "") if properties is not None else ""


def _plain(payload: object, standing: Standing) -> Outgoing:
    properties = Properties(
        content_type=standing.converter.content_type,
        content_encoding=standing.converter.content_encoding,
        delivery_mode=PERSISTENT if standing.persistent else TRANSIENT,
        message_id=new_message_id(),
    )
    message = Message(body_of(payload, standing.converter), properties)
    return Outgoing(message, standing.exchange, standing.routing_key, standing.mandatory)


def _merged(made: Properties, overrides: Overrides) -> Properties:
    """The caller's properties where there are any, with those that were made in the gaps."""
    given = overrides.get("properties")
    found = dict(given.fields()) if given is not None else {}
    headers: Table = {**((given.headers if given is not None else None) or {}), **overrides.get("headers", {})}
    if "key" in overrides:
        headers[KEY_HEADER] = overrides["key"]
    merged = Properties(**{name: value for name, value in found.items() if value is not None})  # type: ignore[arg-type]
    merged.headers = headers or None
    merged.content_type = merged.content_type or made.content_type
    # the converter has written the body, so it knows; one that does not say leaves it to the caller
    merged.content_encoding = made.content_encoding or merged.content_encoding
    merged.message_id = overrides.get("message_id") or merged.message_id or made.message_id
    if merged.delivery_mode is None or "persistent" in overrides:
        merged.delivery_mode = made.delivery_mode
    return merged


def _check_encodes(properties: Properties) -> None:
    try:
        encode_header_payload(properties, 0)
    except (ValueError, TypeError, AttributeError) as error:
        raise CannotConvert(f"the properties of the message cannot be written: {error}") from None


def _check_name(kind: str, name: str) -> None:
    if len(name.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
        raise ValueError(f"the {kind} has more than {NAME_BYTES_MAX} bytes, and AMQP has no room for more")
