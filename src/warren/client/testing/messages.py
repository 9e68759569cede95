"""A message as the memory broker keeps it: properties as the bytes they are on the wire.

So what a real broker could not be sent is refused here as well, and nobody changes a message by changing what it was
made of. Decoded each time anew, as deliveries of a connection are.

Not here: its place in a queue (`testing.queues`).
"""

from dataclasses import dataclass

from librt.strings import BytesWriter

from warren.client.transport import Outgoing
from warren.wire.properties import Properties, decode_properties, encode_header_payload
from warren.wire.values import Table, write_shortstr


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """`routing_keys` has the one it was published with, then those of its headers CC and BCC."""

    body: bytes
    header: bytes
    exchange: str
    routing_keys: tuple[str, ...]

    @property
    def routing_key(self) -> str:
        return self.routing_keys[0]

    @property
    def properties(self) -> Properties:
        return decode_properties(self.header, 0, len(self.header))

    @property
    def headers(self) -> Table:
        return self.properties.headers or {}


def stored(outgoing: Outgoing) -> StoredMessage:
    """What a broker makes of it; one of the `MISFITS` if it cannot be encoded."""
    message = outgoing.message
    key = outgoing.routing_key if message.routing_key is None else message.routing_key
    for text in (outgoing.exchange, key):
        write_shortstr(BytesWriter(), text)
    header = encode_header_payload(message.properties or Properties(), len(message.body))
    properties = decode_properties(header, 0, len(header))
    headers = properties.headers or {}
    keys = (key, *_listed(headers, "CC"), *_listed(headers, "BCC"))
    if "BCC" in headers:
        del headers["BCC"]
        header = encode_header_payload(properties, len(message.body))
    return StoredMessage(bytes(message.body), header, outgoing.exchange, keys)


def _listed(headers: Table, name: str) -> list[str]:
    found = headers.get(name)
    return [key for key in found if isinstance(key, str)] if isinstance(found, list) else []
