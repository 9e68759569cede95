"""Who is let in, and from where."""

import pytest

from warren.broker.access import Access, is_loopback
from warren.model.settings import BrokerSettings
from warren.session.ports import LoginAttempt

INVALID = "user 'guest' - invalid credentials"
FAR = "user 'guest' can only connect via localhost"


def refusal(
    user: str = "guest",
    password: str = "guest",
    host: str = "127.0.0.1",
    external: bool = False,
    settings: BrokerSettings | None = None,
) -> str:
    attempt = LoginAttempt(user, password, host, user if external else "", external)
    return Access(settings or BrokerSettings()).refusal_of(attempt)


def test_the_default_user_is_let_in_with_its_password() -> None:
    assert refusal() == ""


@pytest.mark.parametrize("password", ["", "Guest", "guest ", "gues", "\udcff", "gästé"])
def test_a_wrong_password_is_refused(password: str) -> None:
    assert refusal(password=password) == INVALID


@pytest.mark.parametrize("user", ["", "GUEST", "nobody"])
def test_an_unknown_user_is_refused_like_a_wrong_password(user: str) -> None:
    assert refusal(user=user) == f"user '{user}' - invalid credentials"


def test_a_password_of_any_text_is_compared_by_its_octets() -> None:
    settings = BrokerSettings(default_pass="pässwörd")
    assert refusal(password="pässwörd", settings=settings) == ""
    assert refusal(password="password", settings=settings) == INVALID


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", "0:0:0:0:0:0:0:1"])
def test_loopback_has_many_names(host: str) -> None:
    assert is_loopback(host)
    assert refusal(host=host) == ""


@pytest.mark.parametrize(
    "host",
    ["10.0.0.1", "192.168.1.1", "::ffff:10.0.0.1", "fe80::1", "::2", "0.0.0.0", "", "localhost", "127.0.0.1.evil"],
)
def test_everything_else_is_far_away(host: str) -> None:
    assert not is_loopback(host)
    assert refusal(host=host) == FAR


def test_the_password_is_judged_before_the_place() -> None:
    assert refusal(password="wrong", host="10.0.0.1") == INVALID


def test_without_loopback_users_anybody_may_come_from_anywhere() -> None:
    assert refusal(host="10.0.0.1", settings=BrokerSettings(loopback_users=[])) == ""


def test_only_the_named_users_are_bound_to_loopback() -> None:
    settings = BrokerSettings(default_user="admin", default_pass="x", loopback_users=["guest"])
    assert refusal("admin", "x", "10.0.0.1", settings=settings) == ""
    assert refusal("guest", "guest", settings=settings) == INVALID


def test_a_verified_certificate_needs_no_password_but_a_known_name() -> None:
    assert refusal(password="", external=True) == ""
    assert refusal(user="stranger", password="", external=True) == "user 'stranger' - invalid credentials"
    assert refusal(password="", host="10.0.0.1", external=True) == FAR
