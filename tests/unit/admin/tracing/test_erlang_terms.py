"""Erlang terms, formatted as by `io_lib:format("Properties: ~p", …)` of Erlang/OTP 25."""

from typing import Any

import pytest

from warren.admin.tracing import formats as terms

A30 = b"a" * 30


def term_of(value: Any) -> terms.ErlangTerm:
    """Texts become atoms, bytes binaries; tuples and lists stay."""
    if isinstance(value, bytes):
        return terms.binary(value)
    if isinstance(value, str):
        return terms.atom(value)
    if isinstance(value, float):
        return terms.real(value)
    if isinstance(value, int):
        return terms.integer(value)
    elements = [term_of(element) for element in value]
    return terms.erlang_list(elements) if isinstance(value, list) else terms.erlang_tuple(*elements)


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ([], ["[]"]),
        ([(b"x", "longstr", b"")], ['[{<<"x">>,longstr,<<>>}]']),
        ([(b"x", "longstr", b"a" * 40)], ['[{<<"x">>,longstr,', '  <<"' + "a" * 40 + '">>}]']),
        (
            [(b"x", "longstr", bytes(range(41)))],
            [
                '[{<<"x">>,longstr,',
                "  <<0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,",
                "    23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40>>}]",
            ],
        ),
        (
            [b"rk", A30, A30, A30, b"z"],
            [
                '[<<"rk">>,<<"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa">>,',
                ' <<"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa">>,',
                ' <<"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa">>,<<"z">>]',
            ],
        ),
        (
            [b'a"b\\c\n\t\x1b\b\f\r\v', b"\x7f", b"\xe2\x82\xac", b"", b"AB", b"A\0"],
            [
                r'[<<"a\"b\\c\n\t\e\b\f\r\v">>,',
                " <<127>>,",
                " <<226,130,172>>,",
                ' <<>>,<<"AB">>,',
                " <<65,0>>]",
            ],
        ),
        (
            [(b"l", "array", [("table", [(b"k", "longstr", A30), (b"m", "longstr", A30)]), ("longstr", b"a" * 70)])],
            [
                '[{<<"l">>,array,',
                '  [{table,[{<<"k">>,longstr,',
                '            <<"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa">>},',
                '           {<<"m">>,longstr,',
                '            <<"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa">>}]},',
                '   {longstr,<<"' + "a" * 70 + '">>}]}]',
            ],
        ),
        (
            [(b"a" * 49, "longstr", b"aaaaa"), (b"d", "decimal", (2, 3))],
            ['[{<<"' + "a" * 49 + '">>,', '  longstr,<<"aaaaa">>},', ' {<<"d">>,decimal,{2,3}}]'],
        ),
    ],
)
def test_long_terms_are_broken_into_lines_as_by_erlang(value: Any, lines: list[str]) -> None:
    laid_out = terms.pretty_printed(term_of(value), 15).decode("latin-1")
    assert laid_out.split("\n" + " " * 14) == lines


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.5, "1.5"),
        (100.0, "100.0"),
        (123456.0, "123456.0"),
        (3.3e5, "3.3e5"),
        (1.0e15, "1.0e15"),
        (9007199254740992.0, "9.007199254740992e15"),
        (12345678901234567890.0, "1.2345678901234567e19"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
        (0.001, "0.001"),
        (0.0001, "0.0001"),
        (-0.0025, "-0.0025"),
        (1.0e-7, "1.0e-7"),
        (5.0e-324, "5.0e-324"),
    ],
)
def test_numbers_are_as_short_as_erlang_writes_them(value: float, text: str) -> None:
    assert terms.real(value).line == text.encode()
