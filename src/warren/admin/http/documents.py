"""The JSON that operators send, within what the node can hold.

A document is refused that is nested deeper than anybody means, or has a number of more than 64 bits or one that is none
(`1e999`), or text that is half of a surrogate pair: what such values would become differs from one reader to the next.

Not here: which fields a document has (`admin.changes`), what is answered (`http.answers`).

The fields of a request's document, read with RabbitMQ's refusals.

A field that is missing is `[{key_missing,NAME}]`. What RabbitMQ stumbles over (a number where a text belongs) is a
sentence here that names the field. Fields nobody asks for are ignored, as there.

Not here: what the fields mean (the modules of this package).
"""

import math
from collections.abc import Mapping
from typing import Any

import orjson

from warren.admin.http.responses import HttpFault, bad_request

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
    fault = document_fault(document)
    if fault:
        raise bad_request(fault)
    return document


def document_fault(document: object) -> str:
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
                fault = _scalar_fault(value)
                if fault:
                    return fault
        if not below:
            return ""
        level = below
    return f"the document is nested more than {NESTED_MAX} deep"


def _scalar_fault(value: object) -> str:
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


Document = Mapping[str, Any]
SHORT_OCTETS = 255
LINE_COLUMNS = 80


def require(document: Document, *names: str) -> None:
    """Refuse a document that lacks any of these fields."""
    missing = [name for name in names if name not in document]
    if missing:
        words = [f"{{key_missing,{name}}}" for name in missing]
        in_one_line = "[" + ",".join(words) + "]"
        raise bad_request(in_one_line if len(in_one_line) < LINE_COLUMNS else "[" + ",\n ".join(words) + "]")


def text(document: Document, name: str, default: str = "") -> str:
    value = document.get(name, default)
    if not isinstance(value, str):
        raise bad_request(f"{name} must be a string")
    return value


def flag(document: Document, name: str, default: bool = False) -> bool:
    """A boolean; rabbitmqadmin sends them as strings."""
    value = document.get(name, default)
    if value in ("true", "false"):
        return bool(value == "true")
    if not isinstance(value, bool):
        raise HttpFault(400, "bad_request", ["not_boolean", value])
    return value


def number(document: Document, name: str, default: int) -> int:
    """An integer; rabbitmqadmin sends them as strings."""
    value = document.get(name, default)
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise HttpFault(400, "bad_request", ["not_int", name])
    return value


def names_in(document: Document, name: str) -> list[str]:
    """A list of names, or one text with commas between them."""
    value = document[name]
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return value
    raise bad_request(f"{name} must be a list of strings, or a string with commas between them")


def table(document: Document, name: str) -> dict[str, Any]:
    """An object; an empty array stands for an empty one, as RabbitMQ writes it."""
    value = document.get(name, {})
    if value == []:
        return {}
    if not isinstance(value, dict):
        raise bad_request(f"{name} must be an object")
    return value


def arguments(document: Document) -> dict[str, Any]:
    """The arguments of a declaration or a binding."""
    found = table(document, "arguments")
    check_table("arguments", found)
    return found


def check_table(name: str, found: dict[str, Any]) -> None:
    """Refuse what a table of AMQP cannot hold, or what RabbitMQ takes none of from JSON."""
    waiting: list[object] = [found]
    while waiting:
        value = waiting.pop()
        if value is None:
            raise bad_request("null_not_allowed")
        if isinstance(value, dict):
            if any(len(key.encode()) > SHORT_OCTETS for key in value):
                raise bad_request(f"{name} must not have names of more than {SHORT_OCTETS} bytes")
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def short(what: str, name: str) -> str:
    """A name that AMQP can carry."""
    octets = len(name.encode("utf-8", "surrogateescape"))
    if octets > SHORT_OCTETS:
        raise bad_request(f"{what} should be less than {SHORT_OCTETS} bytes, actually was {octets}\n")
    return name
