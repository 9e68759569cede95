"""Which columns are messages."""

import pytest

from warren.spark.options import COLUMNS, OptionError, WriteOptions, write_options
from warren.spark.sink import check_columns

BODY = {"body": "binary"}


@pytest.fixture
def options() -> WriteOptions:
    return write_options({"url": "amqp://localhost", "routingKey": "k"})


def test_columns_that_were_read_can_be_written(options: WriteOptions) -> None:
    columns = {name: kind.replace(", ", ",").replace(": ", ":") for name, kind in COLUMNS.items()}
    check_columns(columns, options)


@pytest.mark.parametrize("kind", ["string", "bigint", "int", "double", "boolean", "binary"])
def test_headers_may_have_values_of_many_kinds(options: WriteOptions, kind: str) -> None:
    check_columns({**BODY, "headers": f"map<string,{kind}>"}, options)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"routing_key": "string"}, "there is no column body"),
        ({"body": "int"}, "column body is binary or string, not int"),
        ({**BODY, "key": "string"}, "a message has no column 'key'; did you mean routing_key?"),
        ({**BODY, "routing_key": "bigint"}, "column routing_key is string, not bigint"),
        ({**BODY, "message_id": "binary"}, "column message_id is string, not binary"),
        ({**BODY, "headers": "string"}, "column headers is a map from strings"),
        ({**BODY, "headers": "map<int,string>"}, "column headers is a map from strings"),
        ({**BODY, "headers": "map<string,array<int>>"}, "column headers is a map from strings"),
        ({**BODY, "properties": "map<string,string>"}, "column properties is a struct, not map<string,string>"),
        ({**BODY, "properties": "struct<prio:int>"}, "a message has no property 'prio'; did you mean priority?"),
        (
            {**BODY, "properties": "struct<priority:string>"},
            "property priority is tinyint or smallint or int or bigint",
        ),
    ],
)
def test_columns_that_make_no_message_are_named(options: WriteOptions, columns: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_columns(columns, options)
    assert str(caught.value).startswith(sentence)


def test_messages_need_somewhere_to_go() -> None:
    nowhere = write_options({"url": "amqp://localhost"})
    with pytest.raises(OptionError, match="nothing says where messages go"):
        check_columns(BODY, nowhere)
    check_columns({**BODY, "routing_key": "string"}, nowhere)
    check_columns(BODY, write_options({"url": "amqp://localhost", "exchange": "e"}))
