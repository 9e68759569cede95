"""The contents of an AMQP URL, and the refusal of an invalid one."""

import pytest

from warren.client.errors import UriError
from warren.client.machine.settings import AS_SUGGESTED, EXTERNAL
from warren.client.uri import BrokerAddress, parse_uri


def test_a_bare_host_is_asked_as_guest_for_the_first_virtual_host() -> None:
    target = parse_uri("amqp://broker")
    assert target.addresses == (BrokerAddress("broker", 5672),)
    assert (target.user, target.password, target.vhost, target.tls) == ("guest", "guest", "/", False)
    assert (target.heartbeat_s, target.connection_attempts) == (AS_SUGGESTED, 1)


@pytest.mark.parametrize("path", ["", "/", "/%2F", "/%2f"])
def test_the_virtual_host_is_a_slash_with_and_without_a_path(path: str) -> None:
    assert parse_uri(f"amqp://host{path}").vhost == "/"


def test_user_password_and_virtual_host_are_unescaped() -> None:
    target = parse_uri("amqp://a%40b:p%2Fw%3A%25@host/v%20h")
    assert (target.user, target.password, target.vhost) == ("a@b", "p/w:%", "v h")


def test_a_uri_may_list_hosts_with_and_without_ports() -> None:
    target = parse_uri("amqps://u:p@one:5,two,[::1]:7,[fe80::2]/v")
    assert target.addresses == (
        BrokerAddress("one", 5),
        BrokerAddress("two", 5671),
        BrokerAddress("::1", 7),
        BrokerAddress("fe80::2", 5671),
    )
    assert [str(address) for address in target.addresses] == ["one:5", "two:5671", "[::1]:7", "[fe80::2]:5671"]


def test_every_option_is_understood() -> None:
    target = parse_uri(
        "amqps://h?heartbeat=5&connection_timeout=1500&connection_attempts=4&retry_delay=0.5&channel_max=9&frame_max=8192"
        "&auth_mechanism=external&cacertfile=/a+b/ca.pem&certfile=c.pem&keyfile=k.pem&verify=verify_none"
        "&server_name_indication=other"
    )
    assert (target.heartbeat_s, target.connection_timeout_s, target.connection_attempts) == (5, 1.5, 4)
    assert (target.retry_delay_s, target.channel_max, target.frame_max) == (0.5, 9, 8192)
    assert (target.mechanism, target.cacertfile, target.verify) == (EXTERNAL, "/a+b/ca.pem", False)
    assert (target.certfile, target.keyfile, target.server_name) == ("c.pem", "k.pem", "other")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://host", "begins with amqp:// or amqps://"),
        ("host:5672", "begins with amqp:// or amqps://"),
        ("amqp://host/a/b", "written %2F"),
        ("amqp://host#x", "written %23"),
        ("amqp://host:port", "a port is a number"),
        ("amqp://host:70000", "a port is a number"),
        ("amqp://::1", "in brackets"),
        ("amqp://[::1", "in brackets"),
        ("amqp://%ff@host", "not UTF-8"),
        ("amqp://host?heartbeat", "name=value"),
        ("amqp://host?hearbeat=5", "unknown option 'hearbeat' in the URL; did you mean heartbeat?"),
        ("amqp://host?conection_atempts=5", "did you mean connection_attempts?"),
        ("amqp://host?heartbeat=5&heartbeat=6", "given twice"),
        ("amqp://host?heartbeat=-1", "heartbeat is a whole number from 0"),
        ("amqp://host?frame_max=100", "frame_max is a whole number from 4096"),
        ("amqp://host?retry_delay=soon", "number of seconds"),
        ("amqp://host?retry_delay=nan", "number of seconds"),
        ("amqp://host?cacertfile=x", "cacertfile needs amqps://"),
        ("amqps://host?verify=maybe", "verify_peer or verify_none"),
    ],
)
def test_an_invalid_uri_is_refused_in_one_sentence(url: str, said: str) -> None:
    with pytest.raises(UriError) as refused:
        parse_uri(url)
    assert said in str(refused.value)


def test_a_part_of_a_password_that_looks_like_an_option_is_not_quoted() -> None:
    with pytest.raises(UriError, match="a \\? in a password is written %3F") as refused:
        parse_uri("amqp://u:very?secret=1@host/")
    assert "secret" not in str(refused.value)


def test_a_password_is_never_quoted() -> None:
    with pytest.raises(UriError) as refused:
        parse_uri("amqp://u:secret@host:port")
    assert "secret" not in str(refused.value)
    assert "secret" not in repr(parse_uri("amqp://u:secret@host"))
