"""A cipher suite in RabbitMQ's words: key exchange, cipher and hash instead of OpenSSL's one name.

Not here: how a connection came by it (`node.client_link`).
"""

import re
from typing import Final

_ANY: Final = "any"
_AEAD: Final = "aead"
_MODERN = re.compile(r"TLS_(?P<cipher>.+)_(?P<hash>SHA\d+)")
_AES = re.compile(r"AES(\d+)")


def suite_words(name: str) -> tuple[str, str, str]:
    """Key exchange, cipher and hash of a suite: `ECDHE-RSA-AES256-GCM-SHA384` or `TLS_AES_256_GCM_SHA384`."""
    modern = _MODERN.fullmatch(name)
    if modern is not None:
        return _ANY, modern["cipher"].lower(), _AEAD
    parts = name.split("-")
    exchange = [part for part in parts[:2] if part in ("DHE", "ECDHE", "RSA", "ECDSA", "PSK")]
    rest = [_AES.sub(r"AES_\1", part) for part in parts[len(exchange) :]]
    hashed = rest.pop() if rest and rest[-1].startswith("SHA") else ""
    cipher = "_".join(rest).lower()
    authenticated = cipher.endswith(("gcm", "ccm", "ccm8", "poly1305"))
    if not authenticated and cipher.startswith("aes"):
        cipher += "_cbc"
    return "_".join(exchange or ["RSA"]).lower(), cipher, _AEAD if authenticated else hashed.lower()
