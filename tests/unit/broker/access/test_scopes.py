"""The grammar of scopes, and the permissions they grant."""

import pytest

from warren.broker.access.scopes import ScopeRights, WildcardPattern, parse_scope, tags_of, vhost_patterns
from warren.errors import ChannelFault

VHOST = "/"


def rights(*scopes: str, vhost: str = VHOST) -> ScopeRights:
    return ScopeRights("alice", vhost, list(scopes), tags_of(list(scopes)))


@pytest.mark.parametrize(
    ("pattern", "name", "matched"),
    [
        ("", "", True),
        ("", "a", False),
        ("a", "a", True),
        ("a", "ab", False),
        ("a", "ba", False),
        ("*", "", True),
        ("*", "anything/at all", True),
        ("a*", "a", True),
        ("a*", "abc", True),
        ("a*", "bac", False),
        ("*c", "abc", True),
        ("*c", "abcd", False),
        ("a*c", "abc", True),
        ("a*c", "ac", True),
        ("a*b*c", "aXbYc", True),
        ("a*b*c", "aXcYb", False),
        ("%2F", "/", True),
        ("%2f*", "/x", True),
        ("%2A", "*", True),
        ("%2A", "a", False),
        ("a+b", "a b", True),
        ("a%2Bb", "a+b", True),
        ("%C3%A9*", "été", True),
        ("é*", "été", True),
        ("%", "%", False),
        ("%2", "%2", False),
        ("%zz", "%zz", False),
        # without going back, as in RabbitMQ
        ("*a", "aa", False),
        ("a**", "a", False),
        ("a**", "ab", True),
        ("**", "", False),
    ],
)
def test_a_pattern_matches_as_in_rabbitmq(pattern: str, name: str, matched: bool) -> None:
    assert WildcardPattern(pattern).matches(name) is matched


def test_a_hostile_pattern_takes_linear_time() -> None:
    # with going back, these would take longer than the universe lasts
    assert not WildcardPattern("*a" * 7_000 + "b").matches("a" * 16_000)
    assert WildcardPattern("*" * 16_000).matches("a" * 255)


@pytest.mark.parametrize(
    "scope",
    [
        "",
        "read",
        "read:",
        "read:a",
        "read:a/b/c/d",
        "READ:a/b",
        "admin:a/b",
        "tag:management",
        " read:a/b",
        "rabbitmq.read:a/b",
    ],
)
def test_a_scope_of_another_form_grants_nothing(scope: str) -> None:
    assert parse_scope(scope) is None


def test_a_scope_grants_its_own_permission_alone() -> None:
    granted = rights("read:%2F/orders-*")
    assert [granted.allows(permission, "queue", "orders-1") for permission in ("configure", "write", "read")] == [
        False,
        False,
        True,
    ]
    assert not granted.allows("read", "queue", "invoices")


def test_a_scope_of_another_virtual_host_grants_nothing_here() -> None:
    assert not rights("read:staging/*").allows("read", "queue", "orders")
    assert rights("read:stag*/*", vhost="staging").allows("read", "queue", "orders")


@pytest.mark.parametrize(
    ("scopes", "vhost", "entered"),
    [
        (["read:%2F/x"], "/", True),
        (["write:*/x"], "/", True),
        (["configure:staging/"], "staging", True),
        (["read:staging/x"], "/", False),
        (["tag:administrator"], "/", False),
        ([], "/", False),
    ],
)
def test_any_permission_in_a_virtual_host_lets_a_token_enter(scopes: list[str], vhost: str, entered: bool) -> None:
    assert any(pattern.matches(vhost) for pattern in vhost_patterns(scopes)) is entered


def test_a_topic_needs_a_scope_with_a_routing_key() -> None:
    plain, keyed = rights("write:*/amq.topic"), rights("write:*/amq.topic/shop.*")
    assert plain.allows("write", "exchange", "amq.topic")
    assert not plain.allows_topic("write", "amq.topic", "shop.1")
    assert keyed.allows("write", "exchange", "amq.topic")
    assert keyed.allows_topic("write", "amq.topic", "shop.1")
    assert not keyed.allows_topic("write", "amq.topic", "other.1")
    assert not keyed.allows_topic("read", "amq.topic", "shop.1")


def test_the_default_exchange_is_called_amq_default() -> None:
    rights("write:*/amq.default").to_write("exchange", "")
    with pytest.raises(ChannelFault, match=r"access to exchange 'amq\.default' in vhost '/' refused for user 'alice'"):
        rights("write:*/other").to_write("exchange", "")


def test_refusals_are_worded_as_those_of_internal_users() -> None:
    with pytest.raises(ChannelFault, match="access to queue 'q' in vhost '/' refused for user 'alice'"):
        rights().to_read("queue", "q")
    refused = "access to topic 'k' in exchange 'amq.topic' in vhost '/' refused for user 'alice'"
    with pytest.raises(ChannelFault, match=refused):
        rights("write:*/*").to_write_topic("amq.topic", "k")


def test_tags_are_scopes() -> None:
    assert tags_of(["tag:management", "read:*/*", "tag:administrator", "tag:management"]) == [
        "administrator",
        "management",
    ]
    assert rights("tag:impersonator").to_impersonate()
    assert not rights("tag:administrator").to_impersonate()
