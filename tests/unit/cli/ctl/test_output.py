"""Whole outputs, byte for byte as rabbitmqctl 3.10.8 prints them into a pipe."""

import pytest

from warren.cli.ctl import output
from warren.cli.ctl.catalog import VERBS
from warren.cli.ctl.terms import TermTable
from warren.cli.ctl.verb import Options, Rows, Text, VerbCall

QUEUES = Rows(
    ["name", "arguments", "messages"],
    [
        {"name": "q.ttl", "arguments": TermTable({"x-expires": 3600000}), "messages": 0},
        {"name": 'a "b"', "arguments": TermTable(), "messages": 5},
    ],
    streamed=True,
)


def printed(capsys: pytest.CaptureFixture[str], answer: Rows | Text, **options: object) -> str:
    settings = Options(http="", user="", password="", **options)  # type: ignore[arg-type]
    output.write(VerbCall(VERBS["list_queues"], [], settings), answer)
    return capsys.readouterr().out


def test_a_pipe_gets_tabs_and_a_header(capsys: pytest.CaptureFixture[str]) -> None:
    expected = 'name\targuments\tmessages\nq.ttl\t[{"x-expires",3600000}]\t0\na "b"\t[]\t5\n'
    assert printed(capsys, QUEUES) == expected
    assert printed(capsys, QUEUES, quiet=True) == expected


@pytest.mark.parametrize("options", [{"silent": True}, {"headers": False}], ids=str)
def test_the_header_can_be_left_out(options: dict[str, bool], capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, QUEUES, **options) == 'q.ttl\t[{"x-expires",3600000}]\t0\na "b"\t[]\t5\n'


def test_json_is_one_array_with_a_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, QUEUES, formatter="json") == (
        '[\n{"name":"q.ttl","arguments":[["x-expires","long",3600000]],"messages":0}\n'
        ',{"name":"a \\"b\\"","arguments":[],"messages":5}\n]\n'
    )


def test_csv_quotes_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, QUEUES, formatter="csv") == (
        '"name","arguments","messages"\n"q.ttl","[{""x-expires"",3600000}]","0"\n"a ""b""","[]","5"\n'
    )


def test_erlang_terms_are_a_list_of_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, QUEUES, formatter="erlang") == (
        '[[{name,<<"q.ttl">>},{arguments,[{<<"x-expires">>,long,3600000}]},{messages,0}],\n'
        ' [{name,<<"a \\"b\\"">>},{arguments,[]},{messages,5}]]\n'
    )


def test_a_drawn_table_has_every_cell_whole_even_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    rows = Rows(["name"], [{"name": "x" * 200}, {"name": "red\x1b[31m"}])
    assert printed(capsys, rows, formatter="pretty_table").splitlines() == [
        "┌" + "─" * 202 + "┐",
        "│ name" + " " * 197 + "│",
        "├" + "─" * 202 + "┤",
        "│ " + "x" * 200 + " │",
        "├" + "─" * 202 + "┤",
        "│ red\\x1b[31m" + " " * 190 + "│",
        "└" + "─" * 202 + "┘",
    ]


@pytest.mark.parametrize(
    ("formatter", "streamed", "text"),
    [("", True, ""), ("", False, "\n"), ("json", True, "[\n]\n"), ("json", False, "[]\n"), ("csv", True, "")],
    ids=str,
)
def test_an_empty_list_has_no_header(
    formatter: str, streamed: bool, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(capsys, Rows(["name"], [], streamed), formatter=formatter) == text


def test_words_are_a_message_in_json_unless_they_have_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, Text("Ping succeeded")) == "Ping succeeded\n"
    assert printed(capsys, Text("Ping succeeded"), formatter="json") == '{"message":"Ping succeeded"}\n'
    assert printed(capsys, Text("long", {"a": 1}), formatter="json") == '{"a":1}\n'
    assert printed(capsys, Text("Done.", chatty=True), quiet=True) == ""


@pytest.mark.parametrize(
    "options", [{"quiet": True}, {"silent": True}, {"formatter": "json"}, {"formatter": "csv"}], ids=str
)
def test_a_banner_is_said_only_where_it_is_no_part_of_a_document(
    options: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    call = VerbCall(VERBS["list_users"], [], Options(http="", user="", password=""))
    output.announce(call, call.banner())
    assert capsys.readouterr().out == "Listing users ...\n"
    hushed = VerbCall(call.verb, [], Options(http="", user="", password="", **options))  # type: ignore[arg-type]
    output.announce(hushed, hushed.banner())
    assert capsys.readouterr().out == ""
