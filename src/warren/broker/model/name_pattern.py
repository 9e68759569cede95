"""Regular expressions over names, as operators of RabbitMQ write them.

RabbitMQ searches a name's octets with PCRE, anywhere in it. Python's expressions are nearly the same language; what
differs and is in use is put into Python's words: POSIX classes, named groups, quoted stretches, the ends of a text.
A faulty pattern is told in PCRE's words, with the place it was noticed at.

A pattern matches in time exponential in a name's length if its author is careless with nested repetitions. Authors are
policymakers and administrators, so that is theirs to avoid.

Not here: who is matched with what (`policy`, `access`).
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
"""What PCRE has and Python has not, or means otherwise."""

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
"""How Python begins to say it, how PCRE says it, and how much further on PCRE notices."""


@final
class NamePattern:
    """One regular expression; with a `fault` it matches nothing."""

    def __init__(self, text: str) -> None:
        self.text: str = text
        # why it is not a regular expression, and where that was noticed; empty if it is one
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
        """Whether the expression is found anywhere in the name."""
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
    """The pattern as Python reads it. What is wrong with it stays wrong: Python is to find that."""
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
    """Where the pattern goes on after a backslash and what belongs to it."""
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
    """Where the pattern goes on after a class in brackets. What Python reserves of its contents is escaped."""
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
    """Where the `:]` of a class like `[:alpha:]` is; 0 if there is none of that name."""
    end = text.find(":]", at + 2)
    return end if end > 0 and text[at + 2 : end] in POSIX_CLASSES else 0
