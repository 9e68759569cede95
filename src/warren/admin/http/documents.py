"""JSON documents in requests: parsing, limits, and reading fields with RabbitMQ's errors.

Refused are documents that are nested too deeply, integers of more than 64 bits, numbers that overflow (`1e999`) and
lone surrogates, because JSON readers disagree about such values.

A missing field is `[{key_missing,NAME}]`, as in RabbitMQ. A field of the wrong type gets a sentence that names it,
where RabbitMQ crashes. Unknown fields are ignored.

Not here: schemas of documents (`http.schemas`), what fields mean (`admin.resources`).
"""

import math
import re
from collections.abc import Mapping
from typing import Any

import orjson

from warren.admin.http.responses import HttpFault, bad_request

NESTED_MAX = 100
INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**63 - 1
_TWICE = "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"


def document_in(body: bytes) -> dict[str, Any]:
    """The body as a JSON object. Empty, `null` and `true` bodies are an empty object, as in RabbitMQ."""
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


class JsonValueCounter:
    """Counts the values of a JSON text that is given block by block, without parsing it: by commas and brackets outside
    of texts. A parser builds all values in one call, which holds the event loop and takes 25 bytes for each byte of a
    text like `[[],[],…`."""

    def __init__(self) -> None:
        self.count = 0
        self._in_text = False
        self._rest = b""

    def add(self, block: bytes) -> None:
        block = self._rest + block
        # an escape may go on in the next block
        odd = (len(block) - len(block.rstrip(b"\\"))) % 2
        self._rest = block[len(block) - odd :]
        plain = block[: len(block) - odd].replace(b"\\\\", b"").replace(b'\\"', b"")
        pieces = plain.split(b'"')
        outside = b"".join(pieces[1 if self._in_text else 0 :: 2])
        self.count += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        if len(pieces) % 2 == 0:
            self._in_text = not self._in_text


def document_fault(document: object) -> str:
    """Why a document exceeds a limit; empty if it does not."""
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
    """Whether the text can be encoded as UTF-8. Lone surrogates, which JSON can spell, cannot."""
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
    """Raise a fault if one of these fields is missing."""
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
    """A boolean; rabbitmqadmin sends booleans as strings."""
    value = document.get(name, default)
    if value in ("true", "false"):
        return bool(value == "true")
    if not isinstance(value, bool):
        raise HttpFault(400, "bad_request", ["not_boolean", value])
    return value


_INTEGER = re.compile(r"-?[0-9]{1,19}")
"""Python refuses to read an integer of thousands of digits."""


def is_integer(text: str) -> bool:
    """Whether the text is an integer, of about 64 bits at most."""
    return _INTEGER.fullmatch(text) is not None


def number(document: Document, name: str, default: int) -> int:
    """An integer; rabbitmqadmin sends integers as strings."""
    value = document.get(name, default)
    if isinstance(value, str) and is_integer(value):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise HttpFault(400, "bad_request", ["not_int", name])
    return value


def names_in(document: Document, name: str) -> list[str]:
    """A list of names, given as a list or as one comma-separated text."""
    value = document[name]
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return value
    raise bad_request(f"{name} must be a list of strings, or a string with commas between them")


def table(document: Document, name: str) -> dict[str, Any]:
    """An object; an empty array stands for an empty object, as RabbitMQ writes it."""
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
    """Raise a fault for values that an AMQP table cannot hold or that RabbitMQ does not accept from JSON."""
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
    """A name that fits into an AMQP short string."""
    octets = len(name.encode("utf-8", "surrogateescape"))
    if octets > SHORT_OCTETS:
        raise bad_request(f"{what} should be less than {SHORT_OCTETS} bytes, actually was {octets}\n")
    return name
