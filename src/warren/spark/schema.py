"""The columns of a message, as Spark names their types.

| column        | Spark                 |                                                                            |
|---------------|-----------------------|----------------------------------------------------------------------------|
| `partition`   | int                   | of a partitioned stream; 0 elsewhere                                       |
| `offset`      | bigint                | in its stream; of a queue, where the message stands in what was staged     |
| `timestamp`   | timestamp             | when it arrived in the stream; of a queue, when it was staged              |
| `exchange`    | string                |                                                                            |
| `routing_key` | string                |                                                                            |
| `message_id`  | string                | null if the message has none                                               |
| `properties`  | struct                | all other properties of AMQP, null where absent                            |
| `headers`     | map<string, string>   | null if there are none                                                     |
| `body`        | binary                |                                                                            |

Values of headers are text: numbers in decimal, truth as `true` or `false`, bytes that are no UTF-8 in base64, tables
and arrays as JSON.

Spark starts processes that need nothing but these names, for every micro-batch; so nothing here imports Arrow.

Not here: the same as Arrow has it (`spark.arrow_types`), messages as rows (`spark.properties`), rows as messages
(`spark.sinking`).
"""

from collections.abc import Sequence
from typing import Final

PROPERTIES: Final[dict[str, str]] = {
    "content_type": "string",
    "content_encoding": "string",
    "delivery_mode": "int",
    "priority": "int",
    "correlation_id": "string",
    "reply_to": "string",
    "expiration": "string",
    "timestamp": "bigint",
    "type": "string",
    "user_id": "string",
    "app_id": "string",
    "cluster_id": "string",
}
"""The fields of column `properties`, in the order of the wire. The timestamp is in seconds, as its publisher set it."""

COLUMNS: Final[dict[str, str]] = {
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "exchange": "string",
    "routing_key": "string",
    "message_id": "string",
    "properties": "struct<" + ", ".join(f"{name}: {kind}" for name, kind in PROPERTIES.items()) + ">",
    "headers": "map<string, string>",
    "body": "binary",
}


def ddl(columns: Sequence[str]) -> str:
    """The schema as Spark reads it."""
    return ", ".join(f"{name} {COLUMNS[name]}" for name in columns)
