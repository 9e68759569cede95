"""Schemas of request bodies, as the OpenAPI description has them.

The API ignores fields that a schema does not name, as RabbitMQ does, so no schema forbids them.

Not here: reading the fields (`http.documents`), the description (`admin.openapi`).
"""

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
FLAG: Schema = {"anyOf": [{"type": "boolean"}, {"enum": ["true", "false"]}]}
TABLE: Schema = {"type": "object", "additionalProperties": True}
NAMES: Schema = {"anyOf": [{"type": "string"}, {"type": "array", "items": TEXT}]}
ANY_VALUE: Schema = {}
PATTERN: Schema = {"type": "string", "description": "a regular expression; an empty one matches nothing"}


def an_object(required: dict[str, Schema] | None = None, **optional: Schema) -> Schema:
    found: Schema = {"type": "object", "properties": {**(required or {}), **optional}}
    if required:
        found["required"] = list(required)
    return found


def an_array(required: dict[str, Schema], **optional: Schema) -> Schema:
    """An array of objects."""
    return {"type": "array", "items": an_object(required, **optional)}


def one_of(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}
