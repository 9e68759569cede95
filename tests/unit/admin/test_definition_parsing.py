"""Parsing a definitions file."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.admin.definition_import import DefinitionEntry, InvalidDefinitionsFile, definitions_in

NAMES = st.text(max_size=5)
ENTRIES = st.dictionaries(NAMES, NAMES | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.lists(NAMES, max_size=3))
FILES = st.dictionaries(NAMES, st.lists(ENTRIES, max_size=4) | NAMES, max_size=4)


def test_every_entry_is_known_with_the_line_it_begins_on() -> None:
    text = '{\n "users": [\n  {"name": "a"},\n\n  {"name":\n   "b"}\n ],\n "version": "3",\n "queues": []\n}\n'
    assert definitions_in(text) == [
        DefinitionEntry("users", 3, {"name": "a"}),
        DefinitionEntry("users", 5, {"name": "b"}),
        DefinitionEntry("version", 8, "3"),
    ]


@given(FILES, st.sampled_from([None, 0, 1, 4]))
def test_any_json_object_is_parsed_as_json_reads_it(file: dict[str, object], indent: int | None) -> None:
    found = definitions_in(json.dumps(file, indent=indent))
    expected = []
    for section, value in file.items():
        expected += [(section, entry) for entry in value] if isinstance(value, list) else [(section, value)]
    assert [(one.section, one.value) for one in found] == expected
    assert [one.line for one in found] == sorted(one.line for one in found)


@given(st.text(alphabet='{}[]",: \n\\u0aetrunl1-.', max_size=30))
def test_anything_else_is_refused_and_nothing_breaks(text: str) -> None:
    try:
        definitions_in(text)
    except InvalidDefinitionsFile:
        return
    # a trailing comma is accepted, as in RabbitMQ
    assert text.strip().startswith("{")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the file is not a JSON object"),
        ("[]", "the file is not a JSON object"),
        ("{", "line 1 is not JSON: expected '}'"),
        ('{"a"\n1}', "line 2 is not JSON: expected ':'"),
        ('{"a": [1\n\n 2]}', "line 3 is not JSON: expected ']'"),
        ('{"a": \n[tru]}', "line 2 is not JSON: Expecting value"),
        ("{}\n\n{}", "line 3: something follows the object"),
        ('{"a": ' + "[" * 100_000, "the file is nested too deeply"),
    ],
)
def test_the_line_at_fault_is_named(text: str, reason: str) -> None:
    with pytest.raises(InvalidDefinitionsFile) as refused:
        definitions_in(text)
    assert str(refused.value) == reason


def test_a_number_with_too_many_digits_costs_no_time() -> None:
    assert definitions_in('{"a": ' + "1" * 100_000 + "}")[0].value == float("inf")
