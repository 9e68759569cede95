"""The `authorization` header."""

import base64

import pytest

from warren.admin.http.application import credentials
from warren.admin.http.responses import HttpFault
from warren.admin.http.settings import PagesLogin


def basic(text: bytes) -> str:
    return f"Basic {base64.b64encode(text).decode()}"


@pytest.mark.parametrize(
    ("text", "user", "password"),
    [
        (b"guest:guest", "guest", "guest"),
        (b"guest:", "guest", ""),
        (b":x", "", "x"),
        (b"a:b:c", "a", "b:c"),
        ("é:\N{RABBIT}".encode(), "é", "\N{RABBIT}"),
        (b"\xff:\xfe", "\udcff", "\udcfe"),
    ],
)
def test_user_and_password_are_split_at_the_first_colon(text: bytes, user: str, password: str) -> None:
    assert credentials(basic(text), PagesLogin()) == (user, password)


@pytest.mark.parametrize(
    ("header", "status", "reason"),
    [
        ("", 401, None),
        ("Digest x", 400, None),
        ("Bearer", 400, None),
        ("Bearer  ", 400, None),
        ("Basic !!!", 400, None),
        ("Basic", 400, None),
        (basic(b"no colon"), 400, None),
    ],
)
def test_a_malformed_authorization_is_refused_as_rabbitmq_does(header: str, status: int, reason: str | None) -> None:
    with pytest.raises(HttpFault) as refused:
        credentials(header, PagesLogin())
    assert (refused.value.status, refused.value.reason) == (status, reason)
    assert ("www-authenticate" in refused.value.headers) == (status == 401)


@pytest.mark.parametrize("header", ["Bearer a.b.c", "bearer  a.b.c "])
def test_a_bearer_token_is_the_password_of_the_pages_client(header: str) -> None:
    assert credentials(header, PagesLogin()) == ("", "a.b.c")
    assert credentials(header, PagesLogin(client_id="pages")) == ("pages", "a.b.c")


@pytest.mark.parametrize("header", ["", basic(b"guest:guest"), "Digest x"])
def test_passwords_can_be_switched_off_and_tokens_cannot(header: str) -> None:
    tokens_only = PagesLogin(disable_basic_auth=True)
    with pytest.raises(HttpFault, match="basic auth disabled") as refused:
        credentials(header, tokens_only)
    assert (refused.value.status, refused.value.headers) == (401, {})
    assert credentials("Bearer a.b.c", tokens_only) == ("", "a.b.c")
