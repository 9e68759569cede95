"""Erlang terms as RabbitMQ prints them into text traces: on one line if it is short enough, else laid out on several.

A line has 80 columns. What does not fit is opened, and its elements follow one another as far as they are simple and
the line has room; an element with an inside of its own begins a line. Elements of a tuple that begins with an atom
stand behind that atom. Octets that are all printable in Latin-1 are text in quotes, which is never broken; others are
numbers, broken where the line is full.

Where this differs from Erlang: arrays in arrays so deep that they would run off the line are indented less there.

Not here: which terms there are (`tracing.text_format`).
"""

from dataclasses import dataclass
from functools import cached_property

COLUMNS = 80
_ESCAPED = {
    0x08: b"\\b",
    0x09: b"\\t",
    0x0A: b"\\n",
    0x0B: b"\\v",
    0x0C: b"\\f",
    0x0D: b"\\r",
    0x1B: b"\\e",
    0x22: b'\\"',
    0x5C: b"\\\\",
}
_PRINTABLE = frozenset([*range(0x20, 0x7F), *range(0xA0, 0x100), *_ESCAPED])
_EXACT_INTEGERS = 2.0**53


@dataclass(frozen=True)
class Simple:
    """A term without an inside: an atom, a number, a text."""

    line: bytes
    is_atom: bool = False


@dataclass(frozen=True)
class Octets:
    """Octets that are no text."""

    octets: bytes

    @cached_property
    def line(self) -> bytes:
        return b"<<" + b",".join(self.numbers) + b">>"

    @cached_property
    def numbers(self) -> list[bytes]:
        return [b"%d" % octet for octet in self.octets]


@dataclass(frozen=True)
class Row:
    """A list or a tuple."""

    elements: "list[Term]"
    brackets: bytes

    @cached_property
    def line(self) -> bytes:
        inside = b",".join(element.line for element in self.elements)
        return self.brackets[:1] + inside + self.brackets[1:]

    @property
    def is_tagged(self) -> bool:
        first = self.elements[0]
        return self.brackets == b"{}" and len(self.elements) > 1 and isinstance(first, Simple) and first.is_atom


Term = Simple | Octets | Row


def atom(name: str) -> Term:
    return Simple(name.encode(), is_atom=True)


def integer(value: int) -> Term:
    return Simple(b"%d" % value)


def binary(octets: bytes) -> Term:
    if not all(octet in _PRINTABLE for octet in octets):
        return Octets(octets)
    if not octets:
        return Simple(b"<<>>")
    return Simple(b'<<"' + b"".join(_ESCAPED.get(octet) or bytes([octet]) for octet in octets) + b'">>')


def real(value: float) -> Term:
    """The shortest digits that mean this number, written out or with an exponent, whichever is shorter."""
    mantissa, _, exponent = f"{value!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return Simple(f"{sign}0.0".encode())
    scientific = f"{digits[0]}.{digits[1:] or '0'}e{point - 1}"
    written_out = _written_out(digits, point)
    shorter = scientific if abs(value) >= _EXACT_INTEGERS or len(scientific) < len(written_out) else written_out
    return Simple((sign + shorter).encode())


def _written_out(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits
    if point >= len(digits):
        return digits + "0" * (point - len(digits)) + ".0"
    return digits[:point] + "." + digits[point:]


def row(elements: list[Term]) -> Term:
    """A list."""
    return Row(elements, b"[]") if elements else Simple(b"[]")


def together(*elements: Term) -> Term:
    """A tuple."""
    return Row(list(elements), b"{}")


def laid_out(term: Term, column: int) -> bytes:
    """The term's text, which begins in this column of its line, the first being 1."""
    return _laid_out(term, column, 0)


def _laid_out(term: Term, column: int, closing: int) -> bytes:
    """`closing`: how many brackets follow on the same line."""
    if isinstance(term, Simple) or len(term.line) < COLUMNS - column - closing:
        return term.line
    if isinstance(term, Octets):
        return _broken(term.numbers, column + 2, closing)
    opening, end = term.brackets[:1], term.brackets[1:]
    if term.is_tagged:
        tag = term.elements[0].line
        rest = _in_lines(term.elements[1:], column + len(tag) + 2, closing)
        return opening + tag + b"," + rest + end
    return opening + _in_lines(term.elements, column + 1, closing) + end


def _in_lines(elements: list[Term], margin: int, closing: int) -> bytes:
    parts: list[bytes] = []
    column = 0
    for at, element in enumerate(elements):
        behind = closing + 1 if at == len(elements) - 1 else 0
        # what stands between this element and the next line: a comma, or brackets
        reserve = max(behind, 1) + 1
        goes_on = at and isinstance(element, Simple) and len(element.line) + reserve < COLUMNS - column
        if goes_on:
            parts.append(b"," + element.line)
            column += 1 + len(element.line)
            continue
        if at:
            parts.append(b",\n" + b" " * (margin - 1))
        parts.append(_laid_out(element, margin, behind))
        alone = not isinstance(element, Simple) or len(element.line) >= COLUMNS - margin - behind
        column = COLUMNS if alone else margin + len(element.line)
    return b"".join(parts)


def _broken(numbers: list[bytes], margin: int, closing: int) -> bytes:
    width = max(8, COLUMNS - margin - closing)
    room = width
    parts: list[bytes] = []
    for at, number in enumerate(numbers):
        word = number if at == len(numbers) - 1 else number + b","
        if len(word) > room:
            parts.append(b"\n" + b" " * (margin - 1))
            room = width
        parts.append(word)
        room -= len(word)
    return b"<<" + b"".join(parts) + b">>"
