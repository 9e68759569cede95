"""What tells a message from another one with the same business id, in a few characters that fit a row.

It is made of what its sender sends again as it was: the body, and the properties `app_id`, `type` and `reply_to`. What
differs from one delivery of a message to the next has no part in it: headers, into which relays, listeners, brokers and
tracing write, and `user_id`, which does not outlive a retry. Nor has a `reply_to` that a broker made up (`amq.`...),
for that is another one after each connection. A confirmation or a reversal has the digest of the message that it stands
for, since it has all of that from it.

Not here: comparing it with that of a row (`inbox.outcomes`).
"""

import hashlib
from typing import Final

from warren.wire.properties import Properties

DIGEST_BYTES: Final = 16
OF_THE_BROKER: Final = "amq."


def digest_of(body: bytes, properties: Properties) -> str:
    """The same for every delivery of a message, and for no other message."""
    reply_to = properties.reply_to or ""
    said = properties.app_id, properties.type, "" if reply_to.startswith(OF_THE_BROKER) else reply_to
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for text in said:
        # a name may have octets that are no text
        octets = (text or "").encode(errors="surrogatepass")
        digest.update(len(octets).to_bytes(2) + octets)
    digest.update(body)
    return digest.hexdigest()
