"""The fields of a request's document, read with RabbitMQ's refusals.

A field that is missing is `[{key_missing,NAME}]`. What RabbitMQ stumbles over (a number where a text belongs) is a
sentence here that names the field. Fields nobody asks for are ignored, as there.

Not here: what the fields mean (the modules of this package).
"""

from collections.abc import Mapping
from typing import Any

from warren.admin.http.faults import HttpFault, bad_request

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
