"""What columns a written DataFrame may have, and what of them goes into a message.

| column        | type                                                  | if it is not there, or null in a row    |
|---------------|-------------------------------------------------------|-----------------------------------------|
| `body`        | binary or string                                      | must be there                           |
| `exchange`    | string                                                | option `exchange`, else the default one |
| `routing_key` | string                                                | option `routingKey`, else empty         |
| `message_id`  | string                                                | no message id                           |
| `properties`  | struct of some of the fields that reading gives       | a persistent message without others     |
| `headers`     | map<string, T>, T a string, number, boolean or binary | no headers but the sink's own           |

`partition`, `offset` and `timestamp` say where a message was read, and are passed over, so that what was read can be
written as it is.

Not here: frames (`spark.sinking.encoding`).
"""

import difflib
from collections.abc import Mapping
from typing import Final

from warren.spark.options import OptionError, WriteOptions
from warren.spark.schema import COLUMNS, PROPERTIES

PASSED_OVER: Final = ("partition", "offset", "timestamp")
TEXT: Final = ("string",)
BODY: Final = ("binary", "string")
NUMBERS: Final = ("tinyint", "smallint", "int", "bigint")
HEADER_VALUES: Final = ("string", "binary", "boolean", "double", "float", *NUMBERS)


def check_columns(columns: Mapping[str, str], options: WriteOptions) -> None:
    """An `OptionError` if these columns, with the types Spark gives them, are no messages."""
    for name, kind in columns.items():
        if name not in COLUMNS:
            nearest = difflib.get_close_matches(name, COLUMNS, 1, 0.0)[0]
            raise OptionError(
                f"a message has no column {name!r}; did you mean {nearest}? select() what is to be written"
            )
        if name not in PASSED_OVER:
            _check_type(name, kind)
    if "body" not in columns:
        raise OptionError("there is no column body, which is what is to be written")
    if "exchange" not in columns and not options.exchange and "routing_key" not in columns and not options.routing_key:
        raise OptionError(
            "nothing says where messages go: give a column exchange or routing_key, or an option exchange or routingKey"
        )


def _check_type(name: str, kind: str) -> None:
    if name == "headers":
        key, _, value = kind.removeprefix("map<").removesuffix(">").partition(",")
        if not kind.startswith("map<") or key != "string" or value not in HEADER_VALUES:
            raise OptionError(
                f"column headers is a map from strings to strings, numbers, booleans or bytes, not {kind}"
            )
    elif name == "properties":
        if not kind.startswith("struct<"):
            raise OptionError(f"column properties is a struct, not {kind}")
        for field in kind.removeprefix("struct<").removesuffix(">").split(","):
            _check_property(*field.split(":", 1))
    else:
        allowed = BODY if name == "body" else TEXT
        if kind not in allowed:
            raise OptionError(f"column {name} is {' or '.join(allowed)}, not {kind}")


def _check_property(name: str, kind: str = "") -> None:
    if name not in PROPERTIES:
        nearest = difflib.get_close_matches(name, PROPERTIES, 1, 0.0)[0]
        raise OptionError(f"a message has no property {name!r}; did you mean {nearest}?")
    allowed = TEXT if PROPERTIES[name] == "string" else NUMBERS
    if kind not in allowed:
        raise OptionError(f"property {name} is {' or '.join(allowed)}, not {kind}")
