"""JSON values in refusals, recorded from RabbitMQ 3.10.8."""

import pytest

from warren.broker.model.erlang_terms import json_term


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (-1, "-1"),
        (1.5, "1.5"),
        (10**30, "1000000000000000000000000000000"),
        ("", "<<>>"),
        ("a", '<<"a">>'),
        ("é", '<<"é">>'),
        ("日本", "<<230,151,165,230,156,172>>"),
        ('a"b\\c\n', '<<"a\\"b\\\\c\\n">>'),
        ([], "[]"),
        ([1], "[1]"),
        ([97, 98], '"ab"'),
        ({}, "#{}"),
        ({"b": [1, "b"], "a": None}, '#{<<"a">> => null,<<"b">> => [1,<<"b">>]}'),
        ([("nosuch", 1)], '[{<<"nosuch">>,1}]'),
    ],
)
def test_short_values_are_one_line(value: object, shown: str) -> None:
    assert json_term(value) == shown


def test_77_columns_fit_on_a_line() -> None:
    pairs = [("federation-upstream", "a"), ("federation-upstream-set", "b")]
    assert json_term(pairs) == '[{<<"federation-upstream">>,<<"a">>},{<<"federation-upstream-set">>,<<"b">>}]'


def test_pairs_that_do_not_fit_have_a_line_each() -> None:
    pairs = [("nosuch", 1), ("other", "a"), ("third", {"a": [1, "b"]})]
    assert json_term(pairs) == (
        '[{<<"nosuch">>,1},\n {<<"other">>,<<"a">>},\n {<<"third">>,#{<<"a">> => [1,<<"b">>]}}]'
    )


def test_a_long_list_is_filled_line_by_line() -> None:
    assert json_term(list(range(1000, 1030))) == (
        "[1000,1001,1002,1003,1004,1005,1006,1007,1008,1009,1010,1011,1012,1013,1014,\n"
        " 1015,1016,1017,1018,1019,1020,1021,1022,1023,1024,1025,1026,1027,1028,1029]"
    )


def test_a_long_map_within_a_pair_is_indented() -> None:
    fields = {"a" * 25: 1, "b" * 29: 2, "c" * 25: "x"}
    assert json_term([("nosuch", fields)]) == (
        '[{<<"nosuch">>,\n'
        '  #{<<"aaaaaaaaaaaaaaaaaaaaaaaaa">> => 1,\n'
        '    <<"bbbbbbbbbbbbbbbbbbbbbbbbbbbbb">> => 2,\n'
        '    <<"ccccccccccccccccccccccccc">> => <<"x">>}}]'
    )


def test_the_start_column_counts() -> None:
    fault = ([ord(character) for character in "\\ at end of pattern"], 1)
    assert json_term(fault, 52) == '{"\\\\ at end of pattern",1}'
    assert json_term(fault, 53) == '{"\\\\ at end of pattern",\n' + " " * 54 + "1}"
