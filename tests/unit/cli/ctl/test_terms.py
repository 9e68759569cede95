"""Values as rabbitmqctl 3.10.8 writes them."""

import pytest

from warren.cli.ctl.terms import Atom, TermTable, elixir, erlang, pid, shown, tagged

ARGUMENTS = TermTable(
    {
        "x-a": 1.5,
        "x-b": {"m": "q", "n": [1, "a", True, {"z": -1}]},
        "x-c": 'tab\tquote"back\\é\nnl',
        "x-e": [],
        "x-expires": 3600000,
        "x-f": {},
        "x-g": "",
    }
)


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (None, ""),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (1.0, "1.0"),
        ("q.load", "q.load"),
        ("tab\tq", "tab\tq"),
        ([], "[]"),
        (["monitoring", "policymaker"], "[monitoring, policymaker]"),
        ({"s1@localhost": "running"}, "[{s1@localhost, running}]"),
        ((0, 9, 1), "{0,9,1}"),
        (TermTable(), "[]"),
        (TermTable({"x": 1, "y": "z"}), '[{"x",1},{"y","z"}]'),
        (
            TermTable({"b": True, "capabilities": {"basic.nack": True}}),
            '[{"b",true},{"capabilities",[{"basic.nack",true}]}]',
        ),
    ],
    ids=str,
)
def test_a_cell_of_a_table_is_an_erlang_term(value: object, cell: str) -> None:
    assert shown(value) == cell


def test_nested_arguments_are_written_without_spaces_and_an_empty_string_is_an_empty_list() -> None:
    assert shown(ARGUMENTS) == (
        '[{"x-a",1.5},{"x-b",[{"m","q"},{"n",[1,"a",true,[{"z",-1}]]}]},{"x-c","tab\\tquote\\"back\\\\é\\nnl"},'
        '{"x-e",[]},{"x-expires",3600000},{"x-f",[]},{"x-g",[]}]'
    )


def test_json_carries_arguments_as_triples_with_their_types() -> None:
    assert tagged(ARGUMENTS) == [
        ["x-a", "double", 1.5],
        ["x-b", "table", [["m", "longstr", "q"], ["n", "array", [*TAGGED_ITEMS]]]],
        ["x-c", "longstr", 'tab\tquote"back\\é\nnl'],
        ["x-e", "array", []],
        ["x-expires", "long", 3600000],
        ["x-f", "table", []],
        ["x-g", "longstr", ""],
    ]


TAGGED_ITEMS = [["long", 1], ["longstr", "a"], ["bool", True], ["table", [["z", "long", -1]]]]


def test_an_unknown_value_is_an_empty_string_in_json() -> None:
    assert tagged(None) == ""
    assert tagged({"s1@localhost": None}) == {"s1@localhost": ""}


@pytest.mark.parametrize(
    ("value", "term"),
    [
        ("", "<<>>"),
        ("q", '<<"q">>'),
        (Atom("running"), "running"),
        (Atom("vm_memory_high_watermark.relative"), "'vm_memory_high_watermark.relative'"),
        (["t1", "t2"], "[t1,t2]"),
        ({"s1@localhost": Atom("running")}, "[{s1@localhost,running}]"),
        ((0, 9, 1), "{0,9,1}"),
        (pid("s1@localhost", "q"), "<s1@localhost.q>"),
        (
            TermTable({"n": [1, "a", {"z": -1}]}),
            '[{<<"n">>,array,[{long,1},{longstr,<<"a">>},{table,[{<<"z">>,long,-1}]}]}]',
        ),
    ],
    ids=str,
)
def test_the_erlang_formatter_writes_typed_terms(value: object, term: str) -> None:
    assert erlang(value) == term


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (["no_such_user", "x"], '{:no_such_user, "x"}'),
        (["invalid_regexp", [91], [[98, 97, 100], 1]], "{:invalid_regexp, '[', {'bad', 1}}"),
        ([], "{}"),
    ],
    ids=str,
)
def test_a_reason_that_was_a_tuple_is_shown_as_one(reason: object, text: str) -> None:
    assert elixir(reason) == text


def test_a_process_id_has_no_spaces_so_that_scripts_can_cut_it_out() -> None:
    assert pid("n@h", "127.0.0.1:5 -> 127.0.0.1:6") == "<n@h.127.0.0.1:5-127.0.0.1:6>"
    assert pid("n@h", None) is None
