"""Etcd's version 3 messages, and the part of Protocol Buffers that they need.

Requests are functions that return bytes; answers are read field by field. A message is a row of numbered fields; a
field with its default value is left out, and an unknown field is skipped. That is little enough to implement here,
typed, instead of using a library and generated code for some thirty messages.

Not here: calls (`node.etcd.connection`), the meaning of keys (`node.etcd.keys`).
"""

from dataclasses import dataclass

_VARINT = 0
_EIGHT_OCTETS = 1
_OCTETS = 2
_FOUR_OCTETS = 5
_WRAP = 1 << 64
_SIGN = 1 << 63


def encode_number(field: int, value: int | bool) -> bytes:
    """An integer, a boolean or an enumeration's member."""
    return _varint(field << 3 | _VARINT) + _varint(int(value) % _WRAP) if value else b""


def encode_bytes(field: int, value: bytes) -> bytes:
    """A string of bytes."""
    return encode_message(field, value) if value else b""


def encode_text(field: int, value: str) -> bytes:
    return encode_bytes(field, value.encode())


def encode_message(field: int, value: bytes) -> bytes:
    """A nested message, present even if it is empty."""
    return _varint(field << 3 | _OCTETS) + _varint(len(value)) + value


class ProtobufMessage:
    """A received message. Invalid bytes raise `ValueError`."""

    __slots__ = ("_numbers", "_octets")

    def __init__(self, data: bytes) -> None:
        self._numbers: dict[int, int] = {}
        self._octets: dict[int, list[bytes]] = {}
        at = 0
        while at < len(data):
            tag, at = _read_varint(data, at)
            kind = tag & 7
            if kind == _VARINT:
                self._numbers[tag >> 3], at = _read_varint(data, at)
            elif kind == _OCTETS:
                size, at = _read_varint(data, at)
                if at + size > len(data):
                    raise ValueError("a field reaches beyond its message")
                self._octets.setdefault(tag >> 3, []).append(data[at : at + size])
                at += size
            elif kind in (_EIGHT_OCTETS, _FOUR_OCTETS):
                at += 8 if kind == _EIGHT_OCTETS else 4
            else:
                raise ValueError(f"no field is of kind {kind}")

    def number(self, field: int) -> int:
        """A signed integer."""
        value = self._numbers.get(field, 0)
        return value - _WRAP if value & _SIGN else value

    def identity(self, field: int) -> int:
        """An unsigned integer."""
        return self._numbers.get(field, 0)

    def flag(self, field: int) -> bool:
        return bool(self._numbers.get(field, 0))

    def octets(self, field: int) -> bytes:
        found = self._octets.get(field)
        return found[-1] if found else b""

    def text(self, field: int) -> str:
        return self.octets(field).decode("utf-8", "replace")

    def texts(self, field: int) -> list[str]:
        return [octets.decode("utf-8", "replace") for octets in self._octets.get(field, ())]

    def message(self, field: int) -> "ProtobufMessage":
        return ProtobufMessage(self.octets(field))

    def messages(self, field: int) -> "list[ProtobufMessage]":
        return [ProtobufMessage(octets) for octets in self._octets.get(field, ())]


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    septets = bytearray()
    while value >= 0x80:
        septets.append(value & 0x7F | 0x80)
        value >>= 7
    septets.append(value)
    return bytes(septets)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        octet = data[at]
        value |= (octet & 0x7F) << shift
        at += 1
        if octet < 0x80:
            return value % _WRAP, at
        shift += 7
    raise ValueError("a number has no end")


RANGE = "/etcdserverpb.KV/Range"
TXN = "/etcdserverpb.KV/Txn"
COMPACT = "/etcdserverpb.KV/Compact"
WATCH = "/etcdserverpb.Watch/Watch"
LEASE_GRANT = "/etcdserverpb.Lease/LeaseGrant"
LEASE_REVOKE = "/etcdserverpb.Lease/LeaseRevoke"
LEASE_KEEP_ALIVE = "/etcdserverpb.Lease/LeaseKeepAlive"
MEMBER_ADD = "/etcdserverpb.Cluster/MemberAdd"
MEMBER_REMOVE = "/etcdserverpb.Cluster/MemberRemove"
MEMBER_LIST = "/etcdserverpb.Cluster/MemberList"
MEMBER_UPDATE = "/etcdserverpb.Cluster/MemberUpdate"
MEMBER_PROMOTE = "/etcdserverpb.Cluster/MemberPromote"
STATUS = "/etcdserverpb.Maintenance/Status"
ALARM = "/etcdserverpb.Maintenance/Alarm"
DEFRAGMENT = "/etcdserverpb.Maintenance/Defragment"
AUTHENTICATE = "/etcdserverpb.Auth/Authenticate"

_COMPARE_MODIFICATION = 2
_LESS = 2
_DELETED = 1
_DISARM = 2
_NO_SPACE = 1


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key with etcd's own revisions; `lease` is 0 for a permanent key."""

    key: bytes
    created: int
    modified: int
    value: bytes
    lease: int


@dataclass(frozen=True, slots=True)
class EtcdMemberRecord:
    """A member of etcd; one that never started has no name."""

    id: int
    name: str
    peer_urls: tuple[str, ...]
    client_urls: tuple[str, ...]
    learner: bool


@dataclass(frozen=True, slots=True)
class EtcdStatus:
    """One member's status."""

    member_id: int
    version: str
    size_bytes: int
    used_bytes: int
    leader: int
    learner: bool
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TxnResponse:
    """Whether the compares held, and the results of the reads."""

    succeeded: bool
    revision: int
    found: list[list[KeyValue]]


@dataclass(frozen=True, slots=True)
class WatchResponse:
    """Events are keys with a value, or with None if deleted; those of one revision come together."""

    revision: int
    created: bool
    canceled: bool
    compacted: int
    reason: str
    events: list[tuple[int, bytes, bytes | None]]


def prefix_end(prefix: bytes) -> bytes:
    """The first key after all keys with this prefix; the prefix must not end in 0xFF."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def range_request(key: bytes, end: bytes = b"", *, limit: int = 0, revision: int = 0) -> bytes:
    return encode_bytes(1, key) + encode_bytes(2, end) + encode_number(3, limit) + encode_number(4, revision)


def range_operation(key: bytes, end: bytes = b"") -> bytes:
    """An operation within a transaction, like the next three."""
    return encode_message(1, range_request(key, end))


def put_operation(key: bytes, value: bytes, lease: int = 0) -> bytes:
    return encode_message(2, encode_bytes(1, key) + encode_bytes(2, value) + encode_number(3, lease))


def touch_operation(key: bytes) -> bytes:
    """Put an existing key with its own value."""
    return encode_message(2, encode_bytes(1, key) + encode_number(5, True) + encode_number(6, True))


def delete_operation(key: bytes, end: bytes = b"") -> bytes:
    return encode_message(3, encode_bytes(1, key) + encode_bytes(2, end))


def if_unmodified(key: bytes, revision: int) -> bytes:
    """A compare: the key was last changed by this revision; 0: it is missing."""
    return encode_number(2, _COMPARE_MODIFICATION) + encode_bytes(3, key) + encode_number(6, revision)


def if_prefix_unmodified(prefix: bytes, revision: int) -> bytes:
    """A compare: no key with this prefix was changed after this revision."""
    mark = (
        encode_number(1, _LESS)
        + encode_number(2, _COMPARE_MODIFICATION)
        + encode_bytes(3, prefix)
        + encode_number(6, revision + 1)
    )
    return mark + encode_bytes(64, prefix_end(prefix))


def txn(compares: list[bytes], success: list[bytes], failure: list[bytes]) -> bytes:
    parts = [encode_message(1, compare) for compare in compares]
    parts += [encode_message(2, operation) for operation in success]
    parts += [encode_message(3, operation) for operation in failure]
    return b"".join(parts)


def watch_creation(key: bytes, end: bytes, start_revision: int) -> bytes:
    return encode_message(1, encode_bytes(1, key) + encode_bytes(2, end) + encode_number(3, start_revision))


def watch_progress() -> bytes:
    return encode_message(3, b"")


def lease_grant(ttl_s: int) -> bytes:
    return encode_number(1, ttl_s)


def lease_id(lease: int) -> bytes:
    """Of a lease to revoke or to keep alive."""
    return encode_number(1, lease)


def member_addition(peer_url: str) -> bytes:
    """As a learner: it has no vote until it is promoted."""
    return encode_text(1, peer_url) + encode_number(2, True)


def member_address(member: int, peer_url: str) -> bytes:
    """The address at which the others reach it."""
    return encode_number(1, member) + encode_text(2, peer_url)


def member_id(member: int) -> bytes:
    """Of a member to promote or to remove."""
    return encode_number(1, member)


def compaction(revision: int) -> bytes:
    """The pages are free on return."""
    return encode_number(1, revision) + encode_number(2, True)


def disarm_space_alarm(member: int) -> bytes:
    return encode_number(1, _DISARM) + encode_number(2, member) + encode_number(3, _NO_SPACE)


def credentials(user: str, password: str) -> bytes:
    return encode_text(1, user) + encode_text(2, password)


def revision_of(answer: ProtobufMessage) -> int:
    return answer.message(1).number(3)


def cluster_of(answer: ProtobufMessage) -> int:
    """The id of the cluster that answered."""
    return answer.message(1).identity(1)


def key_values(answer: ProtobufMessage) -> list[KeyValue]:
    """Of a range."""
    return [_key_value(found) for found in answer.messages(2)]


def has_more(answer: ProtobufMessage) -> bool:
    return answer.flag(3)


def txn_response(answer: ProtobufMessage) -> TxnResponse:
    found = [key_values(read) for response in answer.messages(3) for read in response.messages(1)]
    return TxnResponse(answer.flag(2), revision_of(answer), found)


def watch_response(data: bytes) -> WatchResponse:
    answer = ProtobufMessage(data)
    return WatchResponse(
        revision_of(answer),
        answer.flag(3),
        answer.flag(4),
        answer.number(5),
        answer.text(6),
        [_event(event) for event in answer.messages(11)],
    )


def granted_lease(answer: ProtobufMessage) -> int:
    return answer.number(2)


def remaining_ttl_s(data: bytes) -> int:
    """0: the lease is gone."""
    return ProtobufMessage(data).number(3)


def members(answer: ProtobufMessage) -> list[EtcdMemberRecord]:
    """Of a list of members."""
    return [member_in(found) for found in answer.messages(2)]


def member_in(found: ProtobufMessage) -> EtcdMemberRecord:
    return EtcdMemberRecord(
        found.identity(1), found.text(2), tuple(found.texts(3)), tuple(found.texts(4)), found.flag(5)
    )


def status(answer: ProtobufMessage) -> EtcdStatus:
    return EtcdStatus(
        answer.message(1).identity(2),
        answer.text(2),
        answer.number(3),
        answer.number(9),
        answer.identity(4),
        answer.flag(10),
        tuple(answer.texts(8)),
    )


def token(answer: ProtobufMessage) -> str:
    return answer.text(2)


def _key_value(found: ProtobufMessage) -> KeyValue:
    return KeyValue(found.octets(1), found.number(2), found.number(3), found.octets(5), found.number(6))


def _event(event: ProtobufMessage) -> tuple[int, bytes, bytes | None]:
    kept = event.message(2)
    return kept.number(3), kept.octets(1), None if event.number(1) == _DELETED else kept.octets(5)
