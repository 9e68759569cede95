"""The settings of a load, and those that are refused."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.load.settings import LoadSettings, Shape, column_types


def settings(folder: Path, url: str = "amqp://localhost", **shape: Any) -> LoadSettings:
    return LoadSettings(("orders.csv",), Folder(str(folder)), url, Shape(**shape))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "nothing says where messages go"),
        ({"routing_key": "a", "key_column": "b"}, "exclude each other"),
        ({"routing_key": "x" * 256}, "the routing key has more than 255 bytes"),
        ({"routing_key": "a", "max_bytes": 4_000_001}, "at most 100 to 4000000 bytes, not 4000001"),
        ({"routing_key": "a", "max_bytes": 99}, "not 99"),
        ({"routing_key": "a", "delimiter": ",,"}, "the delimiter is one character"),
        ({"routing_key": "a", "schema": "id"}, "the schema is NAME TYPE"),
        ({"routing_key": "a", "schema": "id uuid"}, "the schema has no type 'uuid'"),
        ({"routing_key": "a", "schema": "a decimal(2, 3)"}, "the schema has no type"),
        ({"routing_key": "a", "schema": "a int, a int"}, "names column a twice"),
        ({"routing_key": "a", "url": "http://localhost"}, "the URL of the broker"),
    ],
)
def test_contradicting_settings_are_refused(tmp_path: Path, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence.replace("(", r"\(")):
        settings(tmp_path, **given)


def test_a_state_within_the_loaded_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="which is loaded; keep it elsewhere"):
        LoadSettings((str(tmp_path),), Folder(str(tmp_path / "state")), "amqp://localhost", Shape("orders"))
    beside = LoadSettings((str(tmp_path / "st"),), Folder(str(tmp_path / "state")), "amqp://localhost", Shape("orders"))
    assert beside.state.uri.endswith("/state")


def test_an_exchange_needs_no_key(tmp_path: Path) -> None:
    assert settings(tmp_path, exchange="orders").shape.routing_key is None


def test_no_settings_show_the_password(tmp_path: Path) -> None:
    assert "secret" not in repr(settings(tmp_path, "amqp://me:secret@localhost", routing_key="a"))


def test_a_schema_names_types_as_spark_does() -> None:
    assert column_types("id BIGINT, `a b` decimal(12,2), day date") == {
        "id": pa.int64(),
        "a b": pa.decimal128(12, 2),
        "day": pa.date32(),
    }
