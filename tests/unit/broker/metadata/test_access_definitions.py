"""Virtual hosts, users and permissions as metadata: they come back with any names."""

from hypothesis import given
from hypothesis import strategies as st

from tests.property.wire_strategies import surrogate_text
from warren.broker.metadata.access_definitions import (
    PermissionDefinition,
    TopicPermissionDefinition,
    UserDefinition,
    VhostDefinition,
)
from warren.broker.metadata.definition_kinds import decode_definition
from warren.broker.metadata.store import Definition

names = surrogate_text(60)
tags = st.lists(names, max_size=4)
limits = st.dictionaries(st.sampled_from(["max-connections", "max-channels", "max-queues"]), st.integers(-5, 2**63 - 1))


def read_back(stored: Definition) -> Definition:
    read = decode_definition(stored.key(), stored.value())
    assert (type(read), read.key()) == (type(stored), stored.key())
    return read


@given(names, names, tags, limits)
def test_a_virtual_host_comes_back(name: str, description: str, tags: list[str], limits: dict[str, int]) -> None:
    read = read_back(VhostDefinition(name, description, tags, limits))
    assert isinstance(read, VhostDefinition)
    assert (read.name, read.description, read.tags, read.limits) == (name, description, tags, limits)


@given(names, st.binary(max_size=60), names, tags, limits)
def test_a_user_comes_back(name: str, hashed: bytes, algorithm: str, tags: list[str], limits: dict[str, int]) -> None:
    read = read_back(UserDefinition(name, hashed, algorithm, tags, limits))
    assert isinstance(read, UserDefinition)
    assert (read.name, read.password_hash, read.hashing_algorithm) == (name, hashed, algorithm)
    assert (read.tags, read.limits) == (tags, limits)


@given(names, names, names, names, names)
def test_permissions_come_back(user: str, vhost: str, exchange: str, write: str, read_pattern: str) -> None:
    permission = read_back(PermissionDefinition(user, vhost, exchange, write, read_pattern))
    assert isinstance(permission, PermissionDefinition)
    assert (permission.user, permission.vhost, permission.configure) == (user, vhost, exchange)
    assert (permission.write, permission.read) == (write, read_pattern)
    topic = read_back(TopicPermissionDefinition(user, vhost, exchange, write, read_pattern))
    assert isinstance(topic, TopicPermissionDefinition)
    assert (topic.user, topic.vhost, topic.exchange) == (user, vhost, exchange)
    assert (topic.write, topic.read) == (write, read_pattern)


def test_keys_are_readable_paths() -> None:
    keys = [
        VhostDefinition("/", "", [], {}).key(),
        UserDefinition("alice", b"", "", [], {}).key(),
        PermissionDefinition("alice", "/", "", "", "").key(),
        TopicPermissionDefinition("alice", "/", "news", "", "").key(),
    ]
    assert keys == ["vhosts/%2F", "users/alice", "permissions/alice/%2F", "topic_permissions/alice/%2F/news"]
