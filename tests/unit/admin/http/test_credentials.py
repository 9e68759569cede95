"""The `authorization` header."""

import base64

import pytest

from warren.admin.http.application import credentials
from warren.admin.http.responses import HttpFault


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
    assert credentials(basic(text)) == (user, password)


@pytest.mark.parametrize(
    ("header", "status", "reason"),
    [
        ("", 401, None),
        ("Bearer abc", 401, "Login failed"),
        ("Digest x", 400, None),
        ("Basic !!!", 400, None),
        ("Basic", 400, None),
        (basic(b"no colon"), 400, None),
    ],
)
def test_another_authorization_than_basic_is_refused_as_rabbitmq_does(
    header: str, status: int, reason: str | None
) -> None:
    with pytest.raises(HttpFault) as refused:
        credentials(header)
    assert (refused.value.status, refused.value.reason) == (status, reason)
    assert ("www-authenticate" in refused.value.headers) == (status == 401)
