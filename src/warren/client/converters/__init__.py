"""Converters: what a program means, as the body of a message, and back.

    payload ──▶ Converter.to_bytes ──▶ body, content_type, content_encoding ──▶ Converter.from_bytes ──▶ payload

A converter says in the message's properties what it made, so whoever reads the message needs not be told: `payload_of`
finds the converter by the content type.

Invariants: `body_of` and `payload_of` raise a `CannotConvert` and nothing else, whatever a converter raises; nothing is
changed on the way without being told (JSON has no NaN, so NaN is refused).

Not here: which converter a program uses (`client.settings`, `client.template`), arrays of many records
(`client.batches`).
"""

from warren.client.converters.choosing import CONVERTERS, body_of, payload_of
from warren.client.converters.content import BytesConverter, Converter, Received, TextConverter
from warren.client.converters.json_content import JsonConverter

__all__ = [
    "CONVERTERS",
    "BytesConverter",
    "Converter",
    "JsonConverter",
    "Received",
    "TextConverter",
    "body_of",
    "payload_of",
]
