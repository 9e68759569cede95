"""AMQP's octets as text for formats that hold only UTF-8: JSON, Arrow, Spark.

AMQP's strings are any octets. Octets that are not UTF-8 become a text that begins with `NOT_UTF8`, as in RabbitMQ's
traces, followed by the octets in base64. So two different strings are never the same text, and `octets_of_text` gives
the octets back.

Not here: text inside Python, which keeps such octets as lone surrogates (`wire.scalars`).
"""

import base64
import binascii
from typing import Final

NOT_UTF8: Final = "Not UTF-8, base64 is: "
_MARK: Final = NOT_UTF8.encode()


def text_of_octets(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return NOT_UTF8 + base64.b64encode(octets).decode()


def octets_of_text(encoded: bytes) -> bytes:
    """The octets that `text_of_octets` made this text of, which is given in UTF-8. Other text stays as it is."""
    if not encoded.startswith(_MARK):
        return encoded
    try:
        octets = base64.b64decode(encoded[len(_MARK) :], validate=True)
    except binascii.Error:
        return encoded
    return octets if text_of_octets(octets).encode() == encoded else encoded
