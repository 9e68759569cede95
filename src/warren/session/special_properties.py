"""The properties of a message that the broker itself acts on.

Delivery mode, priority and expiration become facts of the message; user-id is checked; CC and BCC name further
routing keys, and BCC is taken out; a reply-to of `amq.rabbitmq.reply-to` becomes the publisher's own inbox; who
publishes it, and as which one, is noted.
Everything else stays as it came, byte for byte.

Not here: the scan itself (`wire.properties`), dead-letter headers (`broker.dead_letters`).
"""

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.model.identity import NOBODY, PUBLISHER, PUBLISHING_ID, identity_in, is_text_or_number
from warren.model.message import Message
from warren.session import direct_reply
from warren.wire.properties import PropertyScan, edit_headers, find_header
from warren.wire.values import decode_table

if TYPE_CHECKING:
    from warren.session.channel import Channel

DELIVERY_MODE: Final[i64] = 0x1000
EXPIRATION: Final[i64] = 0x0100

EXPIRATION_MAX_MS: Final = 315_360_000_000
"""Ten years: RabbitMQ's bound on any time to live."""

TYPE_NAMES: Final[dict[str, str]] = {
    "t": "bool",
    "b": "byte",
    "B": "unsignedbyte",
    "s": "short",
    "u": "unsignedshort",
    "I": "signedint",
    "i": "unsignedint",
    "l": "long",
    "f": "float",
    "d": "double",
    "D": "decimal",
    "S": "longstr",
    "A": "array",
    "T": "timestamp",
    "F": "table",
    "V": "void",
    "x": "binary",
}


def check_sender(channel: "Channel", data: bytes, scan: PropertyScan) -> None:
    """What the publisher says of itself: where it awaits a reply, and who it is."""
    if _asks_direct_reply(data, scan) and channel.inbox is None:
        raise ChannelFault(PRECONDITION_FAILED, "fast reply consumer does not exist")
    if scan.user_id_end:
        _check_user_id(channel, data[scan.user_id_start : scan.user_id_end].decode("utf-8", "surrogateescape"))
    if scan.flags & EXPIRATION:
        _expiration_ms(data[scan.expiration_start : scan.expiration_end])


def applied(channel: "Channel", message: Message, data: bytes, start: i64, end: i64, scan: PropertyScan) -> Message:
    """The message with its special properties acted on; a new one if its content had to change."""
    if scan.flags & EXPIRATION:
        message.expiration_ms = _expiration_ms(data[scan.expiration_start : scan.expiration_end])
    if scan.flags & DELIVERY_MODE:
        if scan.delivery_mode != 1 and scan.delivery_mode != 2:
            raise _invalid_message(f"{{delivery_mode_unknown,{scan.delivery_mode}}}")
        message.persistent = scan.delivery_mode == 2
    if scan.priority > 0:
        message.priority = scan.priority
    identified = scan.headers_end != 0 and _has_identity(data, scan)
    blind = scan.headers_end != 0 and find_header(data, scan.headers_start, scan.headers_end, b"BCC") >= 0
    asks_reply = _asks_direct_reply(data, scan)
    if not blind and not asks_reply:
        message.identified = identified
        return message
    payload = data[start:end]
    if blind:
        payload = edit_headers(payload, ["BCC"], {})
    if asks_reply:
        payload = _with_inbox(channel, payload)
    message = message.with_header_payload(payload)
    message.identified = identified
    return message


def copy_keys(data: bytes, scan: PropertyScan) -> list[str]:
    """The routing keys CC and BCC add."""
    if not scan.headers_end:
        return []
    return _keys_in(data, scan, b"CC") + _keys_in(data, scan, b"BCC")


def _has_identity(data: bytes, scan: PropertyScan) -> bool:
    """Whether both headers are there that tell a repeated publish; a fault if one of them cannot be understood."""
    publisher_at = find_header(data, scan.headers_start, scan.headers_end, PUBLISHER)
    if publisher_at < 0:
        return False
    id_at = find_header(data, scan.headers_start, scan.headers_end, PUBLISHING_ID)
    if id_at < 0:
        return False
    for at, name in ((publisher_at, PUBLISHER), (id_at, PUBLISHING_ID)):
        if not is_text_or_number(data[at]):
            raise _unacceptable_type(data, at, name)
    return identity_in(data, scan.headers_start, scan.headers_end) != NOBODY


def _check_user_id(channel: "Channel", claimed: str) -> None:
    user = channel.connection.user
    if claimed != user and not channel.rights.to_impersonate():
        raise ChannelFault(
            PRECONDITION_FAILED, f"user_id property set to '{claimed}' but authenticated user was '{user}'"
        )


def _expiration_ms(raw: bytes) -> int:
    text = raw.decode("utf-8", "replace")
    digits = text[1:] if text[:1] in ("+", "-") else text
    length = 0
    while length < len(digits) and digits[length] in "0123456789":
        length += 1
    if length == 0:
        raise _invalid_expiration(text, "no_integer")
    if length < len(digits):
        raise _invalid_expiration(text, f'{{leftover_string,"{digits[length:]}"}}')
    value = int(digits) if text[:1] != "-" else -int(digits)
    if value < 0:
        raise _invalid_expiration(text, f"{{value_negative,{value}}}")
    if value > EXPIRATION_MAX_MS:
        raise _invalid_expiration(text, f"{{value_too_large,{value}}}")
    return value


def _keys_in(data: bytes, scan: PropertyScan, name: bytes) -> list[str]:
    at = find_header(data, scan.headers_start, scan.headers_end, name)
    if at < 0:
        return []
    if chr(data[at]) != "A":
        raise _unacceptable_type(data, at, name)
    values = decode_table(data, scan.headers_start, scan.headers_end)[name.decode()]
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _asks_direct_reply(data: bytes, scan: PropertyScan) -> bool:
    if scan.reply_to_end - scan.reply_to_start != len(direct_reply.REPLY_TO_BYTES):
        return False
    return data[scan.reply_to_start : scan.reply_to_end] == direct_reply.REPLY_TO_BYTES


def _with_inbox(channel: "Channel", payload: bytes) -> bytes:
    """The header payload with reply-to naming the inbox of this channel's direct-reply consumer."""
    inbox = channel.inbox
    assert inbox is not None, "check_sender saw it"
    scan = PropertyScan()
    scan.scan(payload, 0, len(payload))
    name = inbox.name.encode()
    return payload[: scan.reply_to_start - 1] + bytes([len(name)]) + name + payload[scan.reply_to_end :]


def _invalid_expiration(text: str, reason: str) -> ChannelFault:
    return ChannelFault(PRECONDITION_FAILED, f"invalid expiration '{text}': {reason}")


def _unacceptable_type(data: bytes, at: i64, name: bytes) -> ChannelFault:
    kind = chr(data[at])
    found = TYPE_NAMES.get(kind, kind)
    return _invalid_message(f'{{unacceptable_type_in_header,"{name.decode()}",{found}}}')


def _invalid_message(reason: str) -> ChannelFault:
    return ChannelFault(PRECONDITION_FAILED, f"invalid message: {reason}")
