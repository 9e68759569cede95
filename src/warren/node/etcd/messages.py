"""What is said to etcd and what it answers, with the field numbers of its version 3 interface.

Requests are functions that give the bytes; answers are read field by field into what callers want of them.

Not here: who is asked, and for how long (`node.etcd.connection`); what keys mean (`node.etcd.keys`).
"""

from dataclasses import dataclass

from warren.node.etcd.protobuf import Message, message, number, octets, text

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
    """A key as etcd has it, with etcd's own revisions; `lease` is 0 for a key that stays."""

    key: bytes
    created: int
    modified: int
    value: bytes
    lease: int


@dataclass(frozen=True, slots=True)
class Member:
    """A member of etcd; one that never started has no name."""

    id: int
    name: str
    peer_urls: tuple[str, ...]
    client_urls: tuple[str, ...]
    learner: bool


@dataclass(frozen=True, slots=True)
class Status:
    """What one member says of itself."""

    member_id: int
    version: str
    size_bytes: int
    used_bytes: int
    leader: int
    learner: bool
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TxnAnswer:
    """Whether the compares held, and for each operation that was a read what it found."""

    succeeded: bool
    revision: int
    found: list[list[KeyValue]]


@dataclass(frozen=True, slots=True)
class WatchAnswer:
    """Events are keys with a value, or None as their value; those of one revision come together."""

    revision: int
    created: bool
    canceled: bool
    compacted: int
    reason: str
    events: list[tuple[int, bytes, bytes | None]]


def end_of(prefix: bytes) -> bytes:
    """The first key behind all that begin so; the prefix must not end in 0xFF."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def range_of(key: bytes, end: bytes = b"", *, limit: int = 0, revision: int = 0) -> bytes:
    return octets(1, key) + octets(2, end) + number(3, limit) + number(4, revision)


def reading(key: bytes, end: bytes = b"") -> bytes:
    """An operation within a transaction, as the three below."""
    return message(1, range_of(key, end))


def putting(key: bytes, value: bytes, lease: int = 0) -> bytes:
    return message(2, octets(1, key) + octets(2, value) + number(3, lease))


def touching(key: bytes) -> bytes:
    """Put a key that is there with the value that it has."""
    return message(2, octets(1, key) + number(5, True) + number(6, True))


def deleting(key: bytes, end: bytes = b"") -> bytes:
    return message(3, octets(1, key) + octets(2, end))


def unmodified(key: bytes, revision: int) -> bytes:
    """A compare: the key was last changed by this revision; 0: it is missing."""
    return number(2, _COMPARE_MODIFICATION) + octets(3, key) + number(6, revision)


def unmodified_since(prefix: bytes, revision: int) -> bytes:
    """A compare: no key that begins so was changed after this revision."""
    mark = number(1, _LESS) + number(2, _COMPARE_MODIFICATION) + octets(3, prefix) + number(6, revision + 1)
    return mark + octets(64, end_of(prefix))


def txn(compares: list[bytes], success: list[bytes], failure: list[bytes]) -> bytes:
    parts = [message(1, compare) for compare in compares]
    parts += [message(2, operation) for operation in success]
    parts += [message(3, operation) for operation in failure]
    return b"".join(parts)


def watch_creation(key: bytes, end: bytes, start_revision: int) -> bytes:
    return message(1, octets(1, key) + octets(2, end) + number(3, start_revision))


def watch_progress() -> bytes:
    return message(3, b"")


def lease_grant(ttl_s: int) -> bytes:
    return number(1, ttl_s)


def lease_id(lease: int) -> bytes:
    """To revoke it, or to keep it alive."""
    return number(1, lease)


def member_addition(peer_url: str) -> bytes:
    """As a learner: it has no vote until it is promoted."""
    return text(1, peer_url) + number(2, True)


def member_address(member: int, peer_url: str) -> bytes:
    """Where the others reach it from now on."""
    return number(1, member) + text(2, peer_url)


def member_id(member: int) -> bytes:
    """To promote it, or to remove it."""
    return number(1, member)


def compaction(revision: int) -> bytes:
    """And the pages are free on return."""
    return number(1, revision) + number(2, True)


def space_alarm_over(member: int) -> bytes:
    return number(1, _DISARM) + number(2, member) + number(3, _NO_SPACE)


def credentials(user: str, password: str) -> bytes:
    return text(1, user) + text(2, password)


def revision_of(answer: Message) -> int:
    return answer.message(1).number(3)


def cluster_of(answer: Message) -> int:
    """The id of the cluster that answered."""
    return answer.message(1).identity(1)


def key_values(answer: Message) -> list[KeyValue]:
    """Of a range."""
    return [_key_value(found) for found in answer.messages(2)]


def has_more(answer: Message) -> bool:
    return answer.flag(3)


def txn_answer(answer: Message) -> TxnAnswer:
    found = [key_values(read) for response in answer.messages(3) for read in response.messages(1)]
    return TxnAnswer(answer.flag(2), revision_of(answer), found)


def watch_answer(data: bytes) -> WatchAnswer:
    answer = Message(data)
    return WatchAnswer(
        revision_of(answer),
        answer.flag(3),
        answer.flag(4),
        answer.number(5),
        answer.text(6),
        [_event(event) for event in answer.messages(11)],
    )


def granted_lease(answer: Message) -> int:
    return answer.number(2)


def remaining_ttl_s(data: bytes) -> int:
    """0: the lease is gone."""
    return Message(data).number(3)


def members(answer: Message) -> list[Member]:
    """Of a list of members."""
    return [member_in(found) for found in answer.messages(2)]


def member_in(found: Message) -> Member:
    return Member(found.identity(1), found.text(2), tuple(found.texts(3)), tuple(found.texts(4)), found.flag(5))


def status(answer: Message) -> Status:
    return Status(
        answer.message(1).identity(2),
        answer.text(2),
        answer.number(3),
        answer.number(9),
        answer.identity(4),
        answer.flag(10),
        tuple(answer.texts(8)),
    )


def token(answer: Message) -> str:
    return answer.text(2)


def _key_value(found: Message) -> KeyValue:
    return KeyValue(found.octets(1), found.number(2), found.number(3), found.octets(5), found.number(6))


def _event(event: Message) -> tuple[int, bytes, bytes | None]:
    kept = event.message(2)
    return kept.number(3), kept.octets(1), None if event.number(1) == _DELETED else kept.octets(5)
