"""A file of definitions, taken apart so that each definition is known with the line it begins on.

Whoever wrote a file of ten thousand lines wants to hear which of them is wrong.

Not here: what a definition means (`importing.makers`).
"""

import json
from bisect import bisect_right
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

_SPACE = " \t\r\n"
_DIGITS_MAX = 20


def _number(digits: str) -> int | float:
    """A number with more digits than 64 bits have is not worth the time that reading it exactly takes."""
    return int(digits) if len(digits) <= _DIGITS_MAX else float(digits)


_DECODER = json.JSONDecoder(parse_int=_number)


class NotDefinitions(ValueError):
    """The text is no JSON object."""


@dataclass(frozen=True)
class Definition:
    """One entry of a list in the file."""

    section: str
    line: int
    value: Any


def definitions_in(text: str) -> list[Definition]:
    """Every entry of every list of the object, in the order they stand there; other values stand for themselves."""
    lines = _line_starts(text)
    found: list[Definition] = []
    at = _past(text, 0)
    if text[at : at + 1] != "{":
        raise NotDefinitions("the file is not a JSON object")
    try:
        at = _past(text, at + 1)
        while text[at : at + 1] == '"':
            section, at = scanstring(text, at + 1, True)
            at = _past(text, _expect(text, _past(text, at), ":"))
            at = _section(text, at, section, lines, found)
            at = _past(text, at)
            if text[at : at + 1] == ",":
                at = _past(text, at + 1)
        at = _past(text, _expect(text, at, "}"))
    except json.JSONDecodeError as error:
        raise NotDefinitions(f"line {error.lineno} is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise NotDefinitions("the file is nested too deeply") from error
    if at != len(text):
        raise NotDefinitions(f"line {bisect_right(lines, at)}: something follows the object")
    return found


def _section(text: str, at: int, section: str, lines: list[int], found: list[Definition]) -> int:
    if text[at : at + 1] != "[":
        value, end = _DECODER.raw_decode(text, at)
        found.append(Definition(section, bisect_right(lines, at), value))
        return end
    at = _past(text, at + 1)
    while text[at : at + 1] not in ("]", ""):
        value, end = _DECODER.raw_decode(text, at)
        found.append(Definition(section, bisect_right(lines, at), value))
        at = _past(text, end)
        if text[at : at + 1] != ",":
            break
        at = _past(text, at + 1)
    return _expect(text, at, "]")


def _expect(text: str, at: int, mark: str) -> int:
    if text[at : at + 1] != mark:
        raise json.JSONDecodeError(f"expected '{mark}'", text, at)
    return at + 1


def _past(text: str, at: int) -> int:
    """Behind white space."""
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _line_starts(text: str) -> list[int]:
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts
