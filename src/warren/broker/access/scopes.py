"""The scopes of an access token: their grammar, and the permissions they grant.

::

    scope       = permission ":" vhost "/" name [ "/" routing_key ]     read:*/orders-*   write:%2F/amq.topic/shop.*
                | "tag:" tag                                             tag:management
    permission  = "configure" | "write" | "read"

Each part is a pattern: `*` stands for any characters, and `%2F` or `+` are decoded as in a URL, so that a name may
contain a slash. A scope of another form grants nothing. As in RabbitMQ, a publish or a binding on a topic exchange
needs a scope with a routing key: one without grants nothing there.

Patterns are matched as RabbitMQ matches them: from left to right, each part at its first occurrence, without going
back. So `*a` does not match `aa`. A match takes linear time.

The permissions of one virtual host are looked up once for each name and kept, because a token may have hundreds of
scopes. The cache is bounded, because clients invent names.

Not here: which claims of a token have scopes, and their prefix (`broker.access.token_claims`).
"""

from typing import Final, final

from warren.broker.access.rights import CONFIGURE, READ, WRITE, Rights
from warren.broker.access.users import CACHED_NAMES_MAX

TAG: Final = "tag:"
PERMISSIONS: Final = (CONFIGURE, WRITE, READ)
_HEX: Final = b"0123456789abcdefABCDEF"


@final
class WildcardPattern:
    """A pattern of one part of a scope."""

    def __init__(self, text: str) -> None:
        self.text: str = text
        # none if an escape is invalid: such a pattern matches nothing
        self._parts: list[bytes] | None = []
        for part in text.encode("utf-8", "surrogateescape").split(b"*"):
            decoded = url_decoded(part)
            if decoded is None:
                self._parts = None
                return
            self._parts.append(decoded)

    def matches(self, name: str) -> bool:
        parts = self._parts
        subject = name.encode("utf-8", "surrogateescape")
        if parts is None or not subject.startswith(parts[0]):
            return False
        position, last = len(parts[0]), len(parts) - 1
        for at in range(1, len(parts)):
            part = parts[at]
            if at == last and not part:
                return True
            # as in RabbitMQ, a part after the end does not match, even an empty one
            if position == len(subject):
                return False
            found = subject.find(part, position)
            if found < 0:
                return False
            position = found + len(part)
        return position == len(subject)


def url_decoded(part: bytes) -> bytes | None:
    """`+` is a space, and `%` begins an escape; None if an escape is invalid."""
    if b"%" not in part:
        return part.replace(b"+", b" ")
    decoded = bytearray()
    at = 0
    while at < len(part):
        octet = part[at]
        if octet == 0x25:
            digits = part[at + 1 : at + 3]
            if len(digits) < 2 or digits[0] not in _HEX or digits[1] not in _HEX:
                return None
            octet = int(digits, 16)
            at += 2
        elif octet == 0x2B:
            octet = 0x20
        decoded.append(octet)
        at += 1
    return bytes(decoded)


@final
class ScopeGrant:
    """A permission that one scope grants."""

    def __init__(self, permission: str, vhost: str, name: str, routing_key: str | None) -> None:
        self.permission: str = permission
        self.vhost: WildcardPattern = WildcardPattern(vhost)
        self.name: WildcardPattern = WildcardPattern(name)
        self.routing_key: WildcardPattern | None = None if routing_key is None else WildcardPattern(routing_key)


def parse_scope(scope: str) -> ScopeGrant | None:
    """The permission that a scope grants; None if it grants none."""
    permission, colon, rest = scope.partition(":")
    if not colon or permission not in PERMISSIONS:
        return None
    parts = rest.split("/")
    if len(parts) == 2:
        return ScopeGrant(permission, parts[0], parts[1], None)
    return ScopeGrant(permission, parts[0], parts[1], parts[2]) if len(parts) == 3 else None


def grants_of(scopes: list[str]) -> list[ScopeGrant]:
    found = [parse_scope(scope) for scope in dict.fromkeys(scopes)]
    return [grant for grant in found if grant is not None]


def tags_of(scopes: list[str]) -> list[str]:
    """The tags among the scopes, sorted."""
    return sorted({scope.removeprefix(TAG) for scope in scopes if scope.startswith(TAG)})


def vhost_patterns(scopes: list[str]) -> list[WildcardPattern]:
    """The patterns of virtual hosts in which any scope grants a permission."""
    return list({grant.vhost.text: grant.vhost for grant in grants_of(scopes)}.values())


@final
class ScopeRights(Rights):
    """The permissions that the scopes of a token grant in one virtual host."""

    def __init__(self, user: str, vhost: str, scopes: list[str], tags: list[str]) -> None:
        super().__init__(user, vhost)
        self._tags: list[str] = tags
        self._grants: list[ScopeGrant] = [grant for grant in grants_of(scopes) if grant.vhost.matches(vhost)]
        self._judged: dict[tuple[str, ...], bool] = {}

    def allows(self, permission: str, kind: str, name: str) -> bool:
        return self._judge((permission, name))

    def allows_topic(self, permission: str, exchange: str, routing_key: str) -> bool:
        return self._judge((permission, exchange, routing_key))

    def has_tag(self, tag: str) -> bool:
        return tag in self._tags

    def _judge(self, asked: tuple[str, ...]) -> bool:
        judged = self._judged.get(asked)
        if judged is None:
            judged = any(_covers(grant, asked) for grant in self._grants)
            if len(self._judged) >= CACHED_NAMES_MAX:
                self._judged.clear()
            self._judged[asked] = judged
        return judged


def _covers(grant: ScopeGrant, asked: tuple[str, ...]) -> bool:
    """Whether a grant covers a permission on a name, and on a routing key if there is one."""
    if grant.permission != asked[0] or not grant.name.matches(asked[1]):
        return False
    return len(asked) == 2 or (grant.routing_key is not None and grant.routing_key.matches(asked[2]))
