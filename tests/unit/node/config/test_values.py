"""Texts to values."""

from collections.abc import Callable

import pytest

from warren.node.config import values
from warren.node.listeners import ListenAddress


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("100", 100),
        ("1k", 1024),
        ("1kB", 1000),
        ("1KiB", 1024),
        ("1M", 1024**2),
        ("1MB", 1000**2),
        ("1MiB", 1024**2),
        ("2G", 2 * 1024**3),
        ("2gb", 2 * 1000**3),
        ("2GiB", 2 * 1024**3),
        ("2 GB", 2 * 1000**3),
        ("1TiB", 1024**4),
    ],
)
def test_an_information_size_counts_in_thousands_unless_its_unit_is_binary(text: str, size: int) -> None:
    assert values.information_size(text) == size


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("131072", 131072), ("128KB", 131072), ("1mb", 1024**2)])
def test_a_byte_size_counts_in_1024(text: str, size: int) -> None:
    assert values.byte_size(4096, 2**31 - 1)(text) == size


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("5672", "", 5672),
        (":0", "", 0),
        ("*:5672", "", 5672),
        ("127.0.0.1:5672", "127.0.0.1", 5672),
        ("localhost:65535", "localhost", 65535),
        (":::5672", "::", 5672),
        ("::1:5672", "::1", 5672),
        ("[::1]:5672", "::1", 5672),
    ],
)
def test_an_address_is_a_port_with_or_without_a_host(text: str, host: str, port: int) -> None:
    assert values.address(text) == ListenAddress(host, port)


def test_words_for_without_end_are_understood() -> None:
    assert [values.timeout_ms(text) for text in ("0", "undefined", "infinity", "1500")] == [0, 0, 0, 1500]
    assert [values.patience_ms(text) for text in ("infinity", "1")] == [86_400_000, 1]


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (values.information_size, "1.5GB"),
        (values.information_size, "-1"),
        (values.information_size, "lots"),
        (values.byte_size(4096, 10**6), "4095"),
        (values.byte_size(4096, 10**6), "2MB"),
        (values.byte_size(4096, 10**6), "1k"),
        (values.address, ""),
        (values.address, "host"),
        (values.address, "host:"),
        (values.address, "host:65536"),
        (values.address, "host:-1"),
        (values.address, "a host:1"),
        (values.address, "host:٣"),
        (values.whole_number(1, 9), "0"),
        (values.whole_number(1, 9), "10"),
        (values.whole_number(1, 9), "five"),
        (values.whole_number(1, 9), "5.0"),
        (values.timeout_ms, "-1"),
        (values.timeout_ms, "soon"),
        (values.patience_ms, "0"),
        (values.ratio, "1.1"),
        (values.ratio, "-0.1"),
        (values.ratio, "nan"),
        (values.ratio, "half"),
        (values.truth, "yes"),
        (values.one_of(["a", "b"]), "c"),
        (values.name, ""),
    ],
)
def test_a_text_that_is_no_such_value_is_refused(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)
