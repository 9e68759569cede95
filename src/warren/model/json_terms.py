"""JSON values in reply texts, as RabbitMQ prints them: Erlang terms, broken into lines of 80 columns.

A string is a binary, an object a map in the order of its keys. A list of numbers that could all be characters is
printed as the text it would spell. A tuple, which JSON has not, stands for an Erlang one.

Not here: the values of AMQP tables, whose texts name their types (`model.terms`).
"""

from typing import Final

from warren.model.terms import term

LINE_COLUMNS: Final = 80
ESCAPES: Final = {8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 27: "\\e", 34: '\\"', 92: "\\\\"}


def json_term(value: object, column: int = 0) -> str:
    """A value that is printed from that column on: in one line if it fits, else an item a line."""
    flat = _flat(value)
    if len(flat) < LINE_COLUMNS - column - 1:
        return flat
    if isinstance(value, tuple):
        return "{" + _separator(column).join([json_term(item, column + 1) for item in value]) + "}"
    if isinstance(value, list) and not _is_text(value):
        return "[" + _filled(value, column + 1) + "]"
    if isinstance(value, dict):
        fields = [f"{_binary(name)} => {json_term(value[name], column + 6)}" for name in sorted(value)]
        return "#{" + _separator(column + 1).join(fields) + "}"
    return flat


def _flat(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return _binary(value)
    if isinstance(value, list):
        if _is_text(value):
            return _quoted(value)
        return "[" + ",".join([_flat(item) for item in value]) + "]"
    if isinstance(value, tuple):
        return "{" + ",".join([_flat(item) for item in value]) + "}"
    if isinstance(value, dict):
        return "#{" + ",".join([f"{_binary(name)} => {_flat(value[name])}" for name in sorted(value)]) + "}"
    return term(value)


def _binary(text: str) -> str:
    """Quoted if every octet is a printable Latin-1 character or has an escape, else as numbers."""
    octets = text.encode("utf-8", "surrogateescape")
    if not octets:
        return "<<>>"
    for octet in octets:
        if not _is_character(octet):
            return "<<" + ",".join([str(octet) for octet in octets]) + ">>"
    return f"<<{_escaped(text)}>>"


def _is_text(items: list[object]) -> bool:
    """Whether a list is, to Erlang, a string."""
    codes = [item for item in items if isinstance(item, int) and not isinstance(item, bool) and _is_character(item)]
    return len(codes) == len(items) > 0


def _quoted(items: list[object]) -> str:
    return _escaped("".join([chr(item) for item in items if isinstance(item, int)]))


def _escaped(text: str) -> str:
    return '"' + "".join([ESCAPES.get(ord(character), character) for character in text]) + '"'


def _is_character(code: int) -> bool:
    return 0x20 <= code <= 0x7E or 0xA0 <= code <= 0xFF or (code in ESCAPES)


def _filled(items: list[object], column: int) -> str:
    """Items of a list, as many on a line as fit; tuples, lists and maps have lines of their own."""
    lines: list[str] = []
    for item in items:
        shown = json_term(item, column)
        plain = not isinstance(item, tuple | list | dict)
        if plain and lines and len(lines[-1]) + len(shown) + column + 2 < LINE_COLUMNS:
            lines[-1] += "," + shown
        else:
            lines.append(shown)
    return _separator(column - 1).join(lines)


def _separator(column: int) -> str:
    return ",\n" + " " * (column + 1)
