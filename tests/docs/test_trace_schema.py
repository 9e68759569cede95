"""The documented schema of trace files, compared with written files."""

import json
import re

from tests.docs.pages import DOCS, codes, read_page
from tests.unit.admin.tracing.copies import RECORDED_COPIES
from warren.admin.tracing.formats import SCHEMA_VERSION, document_of
from warren.admin.tracing.records import record_of

PAGE = read_page(DOCS / "tracing.md")
TYPES: dict[str, type] = {"integer": int, "boolean": bool, "string": str, "object": dict, "array of strings": list}


def documented() -> dict[str, tuple[type, object]]:
    """By field: its type, and the example's value."""
    rows = PAGE.rows("field", "type", "what it holds", "example")
    return {codes(name)[0]: (TYPES[kind], json.loads(codes(example)[0])) for name, kind, _, example in rows}


def test_the_fields_and_types_of_a_line_are_those_of_the_page() -> None:
    fields = {name: kind for name, (kind, _) in documented().items()}
    for copy in RECORDED_COPIES:
        document = document_of(record_of(copy.heard(), copy.at_ms, None))
        assert {name: type(value) for name, value in document.items()} == fields


def test_every_example_has_the_type_of_its_field() -> None:
    assert {name: type(example) for name, (_, example) in documented().items()} == {
        name: kind for name, (kind, _) in documented().items()
    }


def test_the_version_is_that_of_the_page() -> None:
    assert re.findall(r"^## JSON, version (\d+)$", PAGE.text, re.MULTILINE) == [str(SCHEMA_VERSION)]


def test_the_schema_for_spark_has_every_field() -> None:
    [view] = [block.text for block in PAGE.blocks if block.language == "sql"]
    top_level = re.sub(r"STRUCT<.*?>(?=,)", "STRUCT", view, flags=re.DOTALL)
    named = re.findall(r"(\w+) (?:INT|BOOLEAN|STRING|TIMESTAMP|ARRAY|STRUCT)\b", top_level)
    assert sorted(named) == sorted(documented())
