"""Regular expressions over names, in RabbitMQ's dialect.

RabbitMQ searches the octets of a name with PCRE, unanchored. Python's dialect is nearly the same; the differences that
are in use are translated: POSIX classes, named groups, quoted literals, anchors. The error text of an invalid pattern
is PCRE's, with the offset.

A pattern with nested repetitions can take exponential time. Only policymakers and administrators write patterns, so
that is their responsibility.

Not here: which names are matched with which pattern (`broker.policies`, `broker.access`).
"""

import re
from typing import Final, final

POSIX_CLASSES: Final = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "xdigit": "0-9A-Fa-f",
    "word": r"\w",
    "space": r"\s",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "graph": r"\x21-\x7e",
    "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "ascii": r"\x00-\x7f",
}

ESCAPES: Final = {
    "z": r"\Z",
    "Z": r"(?=\n?\Z)",
    "h": r"[ \t\xa0]",
    "H": r"[^ \t\xa0]",
    "N": r"[^\n]",
    "R": r"(?:\r\n|[\n\x0b\f\r\x85])",
    "e": r"\x1b",
}
"""Escapes that Python lacks, or reads differently."""

AT_END: Final = -1

FAULTS: Final = (
    ("unterminated character set", "missing terminating ] for character class", AT_END),
    ("missing ), unterminated comment", "missing ) after comment", AT_END),
    ("missing ), unterminated subpattern", "missing )", AT_END),
    ("unbalanced parenthesis", "unmatched parentheses", 0),
    ("multiple repeat", "nothing to repeat", 0),
    ("min repeat greater than max repeat", "numbers out of order in {} quantifier", AT_END),
    ("bad escape (end of pattern)", "\\ at end of pattern", AT_END),
    ("bad character range", "range out of order in character class", 2),
    ("missing >, unterminated name", "syntax error in subpattern name (missing terminator)", AT_END),
    ("redefinition of group name", "two named subpatterns have the same name", 0),
    ("invalid group reference", "reference to non-existent subpattern", 1),
    ("unknown group name", "reference to non-existent subpattern", 1),
    ("unknown extension", "unrecognized character after (? or (?-", 1),
    ("look-behind requires fixed-width pattern", "lookbehind assertion is not fixed length", AT_END),
)
"""The start of Python's error text, PCRE's error text, and how far PCRE's offset is behind Python's."""


@final
class NamePattern:
    """One regular expression; an invalid one has a `fault` and matches nothing."""

    def __init__(self, text: str) -> None:
        self.text: str = text
        # PCRE's error text and offset; empty for a valid expression
        self.fault: str = ""
        self.fault_at: int = 0
        self._compiled: re.Pattern[bytes] | None = None
        try:
            self._compiled = re.compile(_python_words(text).encode("utf-8", "surrogateescape"))
        except re.error as error:
            self._explain(error.msg, error.pos or 0)
        except OverflowError:
            self._explain("number too big in {} quantifier", len(text))
        except RecursionError:
            self._explain("regular expression is too large", 0)

    def matches(self, name: str) -> bool:
        """Whether the expression matches anywhere in the name."""
        compiled = self._compiled
        return compiled is not None and compiled.search(name.encode("utf-8", "surrogateescape")) is not None

    def _explain(self, reason: str, at: int) -> None:
        self.fault = reason
        for begins, worded, further in FAULTS:
            if reason.startswith(begins):
                self.fault = worded
                at = len(self.text) if further == AT_END else at + further
                break
        self.fault_at = min(at, len(self.text))


def _python_words(text: str) -> str:
    """The pattern in Python's dialect. An invalid pattern stays invalid, so that Python reports it."""
    words: list[str] = []
    at = 0
    while at < len(text):
        begins = text[at]
        if begins == "\\":
            at = _escape(text, at, words)
        elif begins == "[":
            at = _character_class(text, at, words)
        elif text.startswith("(?<", at) and text[at + 3 : at + 4] not in ("=", "!"):
            words.append("(?P<")
            at += 3
        else:
            words.append(begins)
            at += 1
    return "".join(words)


def _escape(text: str, at: int, words: list[str]) -> int:
    """Translate an escape; the offset after it."""
    escaped = text[at + 1 : at + 2]
    if escaped != "Q":
        words.append(ESCAPES.get(escaped, "\\" + escaped))
        return at + 2
    end = text.find("\\E", at + 2)
    if end < 0:
        words.append(re.escape(text[at + 2 :]))
        return len(text)
    words.append(re.escape(text[at + 2 : end]))
    return end + 2


def _character_class(text: str, at: int, words: list[str]) -> int:
    """Translate a character class, and escape what Python reserves in it; the offset after it."""
    words.append("[")
    at += 1
    if text.startswith("^", at):
        words.append("^")
        at += 1
    first = at
    while at < len(text):
        character = text[at]
        if character == "]" and at > first:
            words.append("]")
            return at + 1
        if character == "\\":
            words.append(text[at : at + 2])
            at += 2
        elif text.startswith("[:", at) and _posix_end(text, at) > 0:
            end = _posix_end(text, at)
            words.append(POSIX_CLASSES[text[at + 2 : end]])
            at = end + 2
        else:
            reserved = character in "[]&~|" or (character == "-" and text[at - 1] == "-")
            words.append("\\" + character if reserved else character)
            at += 1
    return at


def _posix_end(text: str, at: int) -> int:
    """The offset of the `:]` of a class like `[:alpha:]`; 0 if there is no such class."""
    end = text.find(":]", at + 2)
    return end if end > 0 and text[at + 2 : end] in POSIX_CLASSES else 0
