"""The JSON that operators send, within what the node can hold.

A document is refused that is nested deeper than anybody means, or has a number of more than 64 bits or one that is none
(`1e999`), or text that is half of a surrogate pair: what such values would become differs from one reader to the next.

Not here: which fields a document has (`admin.changes`), what is answered (`http.answers`).
"""

import math
from typing import Any

import orjson

from warren.admin.http.faults import bad_request

NESTED_MAX = 100
INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**63 - 1
_TWICE = "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"


def document_in(body: bytes) -> dict[str, Any]:
    """A body as a JSON object; an empty one is an empty object, and so, as in RabbitMQ, are `null` and `true`."""
    if not body:
        return {}
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise bad_request("not_json") from None
    if document is None or document is True:
        return {}
    if isinstance(document, str):
        raise bad_request(_TWICE)
    if not isinstance(document, dict):
        raise bad_request("not_json")
    fault = fault_of(document)
    if fault:
        raise bad_request(fault)
    return document


def fault_of(document: object) -> str:
    """Why a document cannot be held; nothing if it can."""
    level = [document]
    for _ in range(NESTED_MAX):
        below: list[object] = []
        for value in level:
            if isinstance(value, dict):
                below += [*value, *value.values()]
            elif isinstance(value, list):
                below += value
            else:
                fault = _fault_of_scalar(value)
                if fault:
                    return fault
        if not below:
            return ""
        level = below
    return f"the document is nested more than {NESTED_MAX} deep"


def _fault_of_scalar(value: object) -> str:
    if isinstance(value, str):
        return "" if is_text(value) else "a text is not UTF-8"
    if isinstance(value, int):
        return "" if INTEGER_MIN <= value <= INTEGER_MAX else "a number has more than 64 bits"
    if isinstance(value, float):
        return "" if math.isfinite(value) else "a number is not finite"
    return ""


def is_text(value: str) -> bool:
    """Whether it can be written as UTF-8: half of a surrogate pair, which JSON can spell, cannot."""
    return value.isascii() or _encodes(value)


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
