"""The records of files; without Spark."""

import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.spreadsheets import write_spreadsheet
from warren.pipeline.errors import PipelineError
from warren.pipeline.load import files
from warren.pipeline.load.files import find_files, tasks_of
from warren.pipeline.load.records import BadRecord, Record, records
from warren.pipeline.load.settings import Shape

TYPES = "id bigint, amount decimal(12, 2), day date, paid boolean, at timestamp"


def read(path: Path, **shape: Any) -> tuple[list[dict[str, Any]], list[BadRecord]]:
    """All records of a file, and its malformed parts."""
    found = [
        item for task in tasks_of(find_files([str(path)])) for part in task for item in records(part, Shape(**shape))
    ]
    good = [json.loads(item.text) for item in found if isinstance(item, Record)]
    return good, [item for item in found if isinstance(item, BadRecord)]


def test_a_csv_is_text_unless_a_schema_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text('id,amount,day,paid,at\n7,12.50,2026-11-15,true,2026-11-15T08:30:00.5Z\n8,,,,\n9,"1.00",,false,\n')
    good, bad = read(path)
    assert good[0] == {
        "id": "7",
        "amount": "12.50",
        "day": "2026-11-15",
        "paid": "true",
        "at": "2026-11-15T08:30:00.5Z",
    }
    good, bad = read(path, schema=TYPES)
    assert good == [
        {"id": 7, "amount": "12.50", "day": "2026-11-15", "paid": True, "at": "2026-11-15T08:30:00.500000+00:00"},
        {"id": 8, "amount": None, "day": None, "paid": None, "at": None},
        {"id": 9, "amount": "1.00", "day": None, "paid": False, "at": None},
    ]
    assert bad == []


def test_a_csv_has_lines_in_quotes_empty_texts_and_other_delimiters(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_bytes('\ufeffid;name\r\n1;"two\nlines; ""quoted"""\r\n2;""\r\n3;\r\n'.encode())
    good, _ = read(path, delimiter=";")
    assert [row["name"] for row in good] == ['two\nlines; "quoted"', "", None]


def test_malformed_rows_of_a_csv_are_kept_apart_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_bytes(b"id,amount\n1,1.00\n2\n3,3.00,extra\nx,4.00\n5,5.001\n6,\xff\n7,7.00\n")
    good, bad = read(path, schema="id bigint, amount decimal(12, 2)")
    assert [row["id"] for row in good] == [1, 7]
    assert sorted(each.reason for each in bad) == [
        "amount: '5.001' is no decimal(12, 2)",
        "amount: is not UTF-8",
        "has 1 values, and there are 2 columns",
        "has 3 values, and there are 2 columns",
        "id: 'x' is no bigint",
    ]


def test_a_quote_that_never_ends_is_an_error_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.pipeline.load.records.CSV_BLOCK_BYTES", 1000)
    path = tmp_path / "orders.csv"
    path.write_text('id,name\n1,"begins' + "x" * 5000)
    with pytest.raises(PipelineError, match="or a quote in it does not end"):
        read(path)


def test_parquet_keeps_its_types_to_the_digit(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array([9007199254740993, None], pa.int64()),
            "amount": pa.array([Decimal("12345678901234567890123456.789012"), None], pa.decimal128(38, 6)),
            "small": pa.array([Decimal("0.0000001"), None], pa.decimal128(10, 7)),
            "day": pa.array([date(2026, 11, 15), None]),
            "at": pa.array([datetime(2026, 11, 15, 8, 30, 0, 123456, UTC), None], pa.timestamp("us", "UTC")),
            "exactly": pa.array([1794731400123456789, None], pa.timestamp("ns", "UTC")),
            "bytes": pa.array([b"\x00\xff", None]),
            "items": pa.array([[{"sku": "a", "n": 2}], None]),
            "tags": pa.array([[("colour", "red")], None], pa.map_(pa.string(), pa.string())),
        }
    )
    pq.write_table(table, tmp_path / "orders.parquet")
    [row, nulls], bad = read(tmp_path / "orders.parquet")
    assert row == {
        "id": 9007199254740993,
        "amount": "12345678901234567890123456.789012",
        "small": "0.0000001",
        "day": "2026-11-15",
        "at": "2026-11-15T08:30:00.123456+00:00",
        "exactly": "2026-11-15T08:30:00.123456789Z",
        "bytes": "AP8=",
        "items": [{"sku": "a", "n": 2}],
        "tags": {"colour": "red"},
    }
    assert nulls == dict.fromkeys(row)
    assert bad == []


def test_ranges_of_parquet_have_every_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "RANGE_BYTES", 2000)
    pq.write_table(pa.table({"id": list(range(5000))}), tmp_path / "a.parquet", row_group_size=100)
    assert len(tasks_of(find_files([str(tmp_path)]))) > 5
    good, _ = read(tmp_path)
    assert [row["id"] for row in good] == list(range(5000))


@pytest.mark.parametrize("size", [1, 7, 64, 65, 1000])
def test_ranges_of_json_lines_have_every_line_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(files, "RANGE_BYTES", size)
    path = tmp_path / "orders.jsonl"
    path.write_text("".join(f'{{"id": {number}}}\n' + "\n" * (number % 3) for number in range(40)) + '{"id": 40}')
    good, bad = read(path)
    assert [row["id"] for row in good] == list(range(41))
    assert bad == []


def test_json_lines_are_taken_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "orders.ndjson"
    lines = [b'{"amount": 12345678901234567890.10, "a": 1e3}', b"[1]", b"{", b'{"name": "\xff"}', b'{"b": null}']
    path.write_bytes(b"\r\n".join(lines))
    found = list(records(tasks_of(find_files([str(path)]))[0][0], Shape(routing_key="k")))
    assert [item.text for item in found if isinstance(item, Record)] == [lines[0], lines[4]]
    reasons = [item.reason for item in found if isinstance(item, BadRecord)]
    assert reasons[0] == "is no JSON object"
    assert [reason.startswith("is not JSON: ") for reason in reasons] == [False, True, True]


def test_compressed_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id\n1\n"))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b'{"id":"2"}\n'))
    good, _ = read(tmp_path)
    assert good == [{"id": "1"}, {"id": "2"}]


def test_a_spreadsheet_has_numbers_dates_and_empty_cells(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["id", "amount", "day", "paid", "note"],
        [4711, 12.5, date(2026, 11, 15), True, "a & b"],
        [None, None, None, None, None],
        [4712, 0.1, None, False, None],
    ]
    path = write_spreadsheet(tmp_path / "orders.xlsx", {"Orders": rows, "Notes": [["text"], ["hello"]]})
    good, _ = read(path)
    assert good == [
        {"id": 4711, "amount": 12.5, "day": "2026-11-15", "paid": True, "note": "a & b"},
        {"id": 4712, "amount": 0.1, "day": None, "paid": False, "note": None},
    ]
    good, bad = read(path, schema="id string, amount decimal(12, 2), day date")
    assert good[0] == {"id": "4711", "amount": "12.50", "day": "2026-11-15", "paid": True, "note": "a & b"}
    assert bad == []
    assert read(path, sheet="Notes")[0] == [{"text": "hello"}]


def test_the_routing_key_comes_from_a_column(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("id,customer\n1,north\n2,\n")
    [part] = tasks_of(find_files([str(path)]))[0]
    found = list(records(part, Shape(key_column="customer")))
    assert [item.key for item in found if isinstance(item, Record)] == ["north"]
    assert [item.reason for item in found if isinstance(item, BadRecord)] == [
        "has no customer, which is its routing key"
    ]


@pytest.mark.parametrize(
    ("name", "content", "shape", "sentence"),
    [
        ("a.csv", b"", {}, "is empty: its first line names the columns"),
        ("a.csv", b"a,a\n1,2\n", {}, "two of one name: 'a'"),
        ("a.csv", b"a\n1\n", {"schema": "b int"}, "has no column 'b', which the schema names"),
        ("a.csv", b"a\n1\n", {"key_column": "b"}, "has no column 'b', which is the routing key"),
        ("a.xlsx", b"no zip", {}, "is no spreadsheet"),
        ("a.parquet", b"no parquet", {}, "is not Parquet"),
        ("a.jsonl", b"{}", {"schema": "b int"}, "a schema is for CSV and spreadsheets"),
        ("a.txt", b"", {}, "is of no kind that can be loaded"),
    ],
)
def test_a_fault_of_a_file_is_one_sentence(
    tmp_path: Path, name: str, content: bytes, shape: dict[str, str], sentence: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PipelineError, match=sentence):
        read(tmp_path / name, **shape)


def test_a_column_of_a_sheet_has_a_name(tmp_path: Path) -> None:
    path = write_spreadsheet(tmp_path / "orders.xlsx", {"Orders": [["id", None], [1, "secret"]]})
    with pytest.raises(PipelineError, match="has a column without a name"):
        read(path)


def test_a_sheet_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    path = write_spreadsheet(tmp_path / "orders.xlsx", {"Orders": [["id"], [1]]})
    with pytest.raises(PipelineError, match="has no sheet 'Order': Orders are there"):
        read(path, sheet="Order")


def test_a_folder_is_read_without_hidden_and_temporary_files(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "day/c.csv", "_temporary/d.csv", ".e.csv", "notes.txt"):
        path = tmp_path / "in" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("id\n1\n")
    found = find_files([str(tmp_path / "in"), str(tmp_path / "in" / "a.csv")])
    assert [Path(file.uri).name for file in found] == ["a.csv", "b.csv", "c.csv"]


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"there is no file .*/orders\.csv"):
        find_files([str(tmp_path / "orders.csv")])
    with pytest.raises(PipelineError, match="has no files that can be loaded"):
        find_files([str(tmp_path)])


def test_small_files_share_a_task(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}.csv").write_text("id\n1\n")
    assert [len(task) for task in tasks_of(find_files([str(tmp_path)]))] == [20]
