"""Files in a browser's form."""

import pytest

from warren.admin.http.responses import HttpFault
from warren.admin.resources.definitions import file_in_form

FORM = "multipart/form-data; boundary=b"


def form(**fields: str) -> bytes:
    parts = [f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n' for name, text in fields.items()]
    return "".join([*parts, "--b--\r\n"]).encode()


def test_a_body_that_is_no_form_is_the_file() -> None:
    assert file_in_form("application/json", b"{}") == (b"{}", "")
    assert file_in_form("", b"{}") == (b"{}", "")


def test_the_file_is_taken_out_of_a_form() -> None:
    assert file_in_form(FORM, form(file='{"users": []}', redirect="../#/import")) == (b'{"users": []}', "../#/import")


@pytest.mark.parametrize(
    "away",
    ["https://evil.example/", "//evil.example", "/api", "javascript:alert(1)", "\\\\evil", "../\r\nset-cookie: a=b"],
)
def test_a_form_leads_to_no_other_place(away: str) -> None:
    assert file_in_form(FORM, form(file="{}", redirect=away)) == (b"{}", "")


@pytest.mark.parametrize("body", [b"", b"--b--", b"\xff\xfe", b"--b\r\n\r\n"])
def test_a_form_without_a_file_is_an_empty_file(body: bytes) -> None:
    assert file_in_form(FORM, body) == (b"", "")


def test_a_content_type_that_takes_seconds_to_read_is_refused() -> None:
    with pytest.raises(HttpFault, match="the content type is too long"):
        file_in_form(FORM + '; a="' + ";" * 60_000, form(file="{}"))
