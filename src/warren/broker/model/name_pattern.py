r"""Regular expressions over names, in RabbitMQ's dialect, matched in linear time.

RabbitMQ searches the octets of a name with PCRE, unanchored. PCRE backtracks: a pattern like `^(a+)+$` takes a time
that doubles with every octet of a name, and one such policy would stop every node. So patterns run on RE2, whose time
is at most the length of a name times the size of the pattern.

A pattern is parsed here, as PCRE parses it, and written anew in the few constructs of RE2 that mean the same in both:
octets, sets of octets, groups, alternatives, quantifiers and anchors. Escapes, POSIX classes, quoted literals and the
options `i` and `s` are resolved on the way; letters have two cases in ASCII only. A syntax error has PCRE's text and
offset, in octets.

**Look-aheads.** RE2 has none, but "every name except" is a common pattern: `^(?!amq\.).*`. A pattern that consists of
`^` or `\A`, then look-aheads `(?!A)` or `(?=A)`, then the rest B, without a `|` outside groups, can match only at the
start of a name. It matches if every A of a `(?=A)`, no A of a `(?!A)`, and B match there. These are separate
expressions, each without look-arounds. Options such as `(?i)` may come first.

**Not supported**, and a fault with a sentence: other look-arounds, back references, atomic groups and possessive
quantifiers, conditions, recursion, the options `m`, `x`, `U`, `J` and `X`, quantifiers above 1,000, and patterns that
are too large. `$` matches at the end and before a final newline, as in PCRE, but nothing after it can match that
newline.

Invariant: a pattern with a fault matches nothing. A stored pattern can have one; then a permission allows nothing, and
a policy applies to nothing.

Not here: which names are matched with which pattern (`broker.policies`, `broker.access`).
"""

import re
from typing import Any, Final, final

import re2

PATTERN_OCTETS_MAX: Final = 4096
STEPS_MAX: Final = 1000
"""Of a pattern's program. An octet of a name costs up to 5 ns for each step, the longest name a millisecond."""

MEMORY_MAX: Final = 256 * 1024
"""For the program and the states that RE2 keeps of it. Without room for states it is slower, but as linear."""

UPPER: Final = frozenset(range(ord("A"), ord("Z") + 1))
LOWER: Final = frozenset(range(ord("a"), ord("z") + 1))
DIGITS: Final = frozenset(range(ord("0"), ord("9") + 1))
GRAPH: Final = frozenset(range(0x21, 0x7F))
SPACES: Final = frozenset(range(0x09, 0x0E)) | frozenset([0x20])
WORD: Final = UPPER | LOWER | DIGITS | frozenset([ord("_")])
ANY: Final = frozenset(range(256))
NEWLINE: Final = frozenset([0x0A])

POSIX_CLASSES: Final[dict[str, frozenset[int]]] = {
    "alpha": UPPER | LOWER,
    "digit": DIGITS,
    "alnum": UPPER | LOWER | DIGITS,
    "upper": UPPER,
    "lower": LOWER,
    "xdigit": DIGITS | frozenset(b"abcdefABCDEF"),
    "word": WORD,
    "space": SPACES,
    "blank": frozenset(b" \t"),
    "cntrl": frozenset(range(0x20)) | frozenset([0x7F]),
    "graph": GRAPH,
    "print": GRAPH | frozenset([0x20]),
    "punct": GRAPH - UPPER - LOWER - DIGITS,
    "ascii": frozenset(range(0x80)),
}

SET_ESCAPES: Final[dict[str, frozenset[int]]] = {
    "d": DIGITS,
    "w": WORD,
    "s": SPACES,
    "h": frozenset(b" \t\xa0"),
    "v": frozenset(b"\n\x0b\x0c\r\x85"),
}
"""A capital letter means all other octets."""

OCTET_ESCAPES: Final[dict[str, int]] = {"a": 0x07, "e": 0x1B, "f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09}
ANCHORS: Final[dict[str, str]] = {"A": r"\A", "z": r"\z", "Z": r"(?:\n?\z)", "b": r"\b", "B": r"\B"}
UNSUPPORTED_ESCAPES: Final = "CGKNPRXop"

QUANTIFIER: Final = re.compile(r"[*+?]|\{(\d{1,30})(,?)(\d{0,30})\}")
POSIX_CLASS: Final = re.compile(r"\[([:.=])(\^?)([^\]]*?)\1\]")
HEX: Final = re.compile(r"\{([0-9A-Fa-f]{1,9})\}|([0-9A-Fa-f]{0,2})")
NUMBER: Final = re.compile(r"[0-9]{1,9}")
OCTAL: Final = re.compile(r"[0-7]{1,3}")
OPTIONS: Final = re.compile(r"([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
GROUP_NAME: Final = re.compile(r"P?<(\w*)>?|'(\w*)'?", re.ASCII)
REFERENCE: Final = re.compile(r"P[=>](\w*)\)?", re.ASCII)

QUANTIFIER_MAX: Final = 65535
REPEATS_MAX: Final = 1000

NO_BACK_REFERENCES: Final = "back references are not supported"
NO_LOOK_BEHINDS: Final = "look-behind assertions are not supported"
NO_LOOK_AHEADS: Final = (
    "look-ahead assertions are supported only at the start, as in ^(?!a)b, and without a | outside groups"
)
NO_ATOMS: Final = "possessive quantifiers and atomic groups are not supported"
NO_CONDITIONS: Final = "conditions, recursion, branch resets and callouts are not supported"
NO_VERBS: Final = "verbs like (*UTF8) are not supported"
NO_OPTIONS: Final = "of the options, only (?i) and (?s) are supported"
NO_QUOTED_MEMBERS: Final = r"\Q in a character class is not supported"
TOO_MANY_REPEATS: Final = f"quantifiers above {REPEATS_MAX} are not supported"
TOO_LONG: Final = f"patterns longer than {PATTERN_OCTETS_MAX} octets are not supported"
TOO_LARGE: Final = f"patterns of more than {STEPS_MAX} steps, repetitions included, are not supported"


class PatternError(Exception):
    """PCRE's error text, or what is not supported, and the offset."""

    def __init__(self, text: str, at: int) -> None:
        super().__init__(text)
        self.text: str = text
        self.at: int = at


class UnsupportedPattern(PatternError):
    """PCRE has a meaning for it, and linear time does not."""


@final
class NamePattern:
    """One regular expression; one with a `fault` matches nothing."""

    def __init__(self, text: str, any_case: bool = False) -> None:
        self.text: str = text
        # PCRE's error text or what is not supported, and the offset; empty for a usable expression
        self.fault: str = ""
        self.fault_at: int = 0
        # whether the expression is right and the fault is that it is not supported
        self.unsupported: bool = False
        # the size of its program, which bounds the time for one octet of a name
        self.steps: int = 0
        # RE2's expressions, and whether each must be found or must not
        self._conditions: list[tuple[Any, bool]] = []
        try:
            self._compile(text.encode("utf-8", "surrogateescape"), any_case)
        except PatternError as error:
            self.fault = error.text
            self.fault_at = error.at
            self.unsupported = isinstance(error, UnsupportedPattern)
            self._conditions = []

    def matches(self, name: str) -> bool:
        """Whether the expression matches anywhere in the name."""
        octets = name.encode("utf-8", "surrogateescape")
        for expression, wanted in self._conditions:
            if (expression.search(octets) is not None) != wanted:
                return False
        return not self.fault

    def sentence(self) -> str:
        """What is wrong, for people; empty for a usable expression."""
        if not self.fault:
            return ""
        return f"the pattern {self.text!r} matches nothing: {self.fault}, at offset {self.fault_at}"

    def _compile(self, octets: bytes, any_case: bool) -> None:
        if len(octets) > PATTERN_OCTETS_MAX:
            raise UnsupportedPattern(TOO_LONG, PATTERN_OCTETS_MAX)
        translation = PatternTranslation(octets.decode("latin-1"), any_case)
        translation.run()
        for condition, wanted in translation.conditions:
            expression = _compiled(condition)
            self.steps += expression.programsize
            self._conditions.append((expression, wanted))
        if self.steps > STEPS_MAX:
            raise UnsupportedPattern(TOO_LARGE, len(octets))


def _compiled(expression: str) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = MEMORY_MAX
    options.never_capture = True
    options.log_errors = False
    try:
        return re2.compile(expression.encode("ascii"), options)
    except re2.error:
        # the syntax is right: it was written here
        raise UnsupportedPattern(TOO_LARGE, 0) from None


@final
class OpenGroup:
    """A group whose end is not reached yet: the options outside of it, and what was written before a look-ahead."""

    def __init__(self, any_case: bool, dot_all: bool) -> None:
        self.any_case: bool = any_case
        self.dot_all: bool = dot_all
        self.before: list[str] | None = None
        self.wanted: bool = True


@final
class PatternTranslation:
    """Reads a pattern once, from left to right, and writes RE2's expressions. Each character is one octet."""

    def __init__(self, text: str, any_case: bool) -> None:
        self.conditions: list[tuple[str, bool]] = []
        self._text: str = text
        self._at: int = 0
        self._written: list[str] = []
        self._any_case: bool = any_case
        self._dot_all: bool = False
        self._groups: list[OpenGroup] = []
        # capturing groups so far, their names, and the references to them with their offsets
        self._captures: int = 0
        self._names: dict[str, None] = {}
        self._references: list[tuple[str, int]] = []
        # whether a quantifier may come next, and whether a look-ahead may
        self._repeatable: bool = False
        self._leading: bool = False
        # whether the last member of a class was one octet
        self._single: bool = False
        # a syntax error further on comes first, as PCRE reports it
        self._unsupported: UnsupportedPattern | None = None

    def run(self) -> None:
        while self._at < len(self._text):
            self._step()
        end = len(self._text)
        if self._groups:
            raise PatternError("missing )", end)
        for reference, at in self._references:
            is_number = NUMBER.match(reference) is not None
            if (int(reference) > self._captures) if is_number else (reference not in self._names):
                raise PatternError("reference to non-existent subpattern", at)
        if self._unsupported is not None:
            raise self._unsupported
        self.conditions.append(("".join(self._written), True))

    def _step(self) -> None:
        character = self._text[self._at]
        leading = self._leading
        self._leading = False
        if character == "\\":
            self._escape(leading)
        elif character == "[":
            self._character_class()
        elif character == "(":
            self._open(leading)
        elif character == ")":
            self._close()
        elif character == "|":
            self._alternative()
        elif character == "^":
            self._at += 1
            self._anchor(r"\A")
        elif character == "$":
            self._at += 1
            self._anchor(ANCHORS["Z"])
        elif character == ".":
            self._at += 1
            self._write_set(ANY if self._dot_all else NEWLINE, not self._dot_all)
        else:
            self._quantifier_or_octet(character)

    # -- written parts

    def _write(self, part: str, repeatable: bool) -> None:
        self._written.append(part)
        self._repeatable = repeatable

    def _write_set(self, octets: frozenset[int], negated: bool) -> None:
        self._write(_set_expression(_in_both_cases(octets) if self._any_case else octets, negated), True)

    def _anchor(self, anchor: str) -> None:
        self._leading = anchor == r"\A" and not self._written and not self._groups
        self._write(anchor, False)

    def _refuse(self, sentence: str, at: int) -> None:
        if self._unsupported is None:
            self._unsupported = UnsupportedPattern(sentence, at)

    # -- quantifiers and alternatives

    def _quantifier_or_octet(self, character: str) -> None:
        found = QUANTIFIER.match(self._text, self._at)
        if found is None:
            self._at += 1
            self._write_set(frozenset([ord(character)]), False)
            return
        if not self._repeatable:
            raise PatternError("nothing to repeat", self._at)
        self._at = found.end()
        if character == "{":
            self._check_counts(int(found.group(1)), found.group(2), found.group(3))
        self._write(found.group(), False)
        following = self._text[self._at : self._at + 1]
        if following == "?":
            # whether it takes few or many makes no difference to whether there is a match
            self._at += 1
        elif following == "+":
            self._refuse(NO_ATOMS, self._at)
            self._at += 1

    def _check_counts(self, least: int, comma: str, most: str) -> None:
        if max(least, int(most or "0")) > QUANTIFIER_MAX:
            raise PatternError("number too big in {} quantifier", self._at)
        if comma and most and int(most) < least:
            raise PatternError("numbers out of order in {} quantifier", self._at)
        if max(least, int(most or "0")) > REPEATS_MAX:
            self._refuse(TOO_MANY_REPEATS, self._at)

    def _alternative(self) -> None:
        if not self._groups and self.conditions:
            self._refuse(NO_LOOK_AHEADS, self._at)
        self._at += 1
        self._write("|", False)

    # -- escapes

    def _escape(self, leading: bool) -> None:
        began = self._at
        escaped = self._text[began + 1 : began + 2]
        self._at += 2
        if not escaped:
            raise PatternError("\\ at end of pattern", len(self._text))
        if escaped == "Q":
            self._quoted()
        elif escaped == "E":
            self._leading = leading
        elif escaped in ANCHORS:
            self._anchor(ANCHORS[escaped])
        elif escaped.lower() in SET_ESCAPES:
            self._write_set(SET_ESCAPES[escaped.lower()], escaped.isupper())
        elif escaped in "123456789gk" and not self._is_octal():
            self._back_reference(escaped)
        elif escaped == "N" and not self._text.startswith("{", self._at):
            self._write_set(NEWLINE, True)
        else:
            self._write_set(frozenset([self._octet(escaped, began)]), False)

    def _quoted(self) -> None:
        end = self._text.find("\\E", self._at)
        end = len(self._text) if end < 0 else end
        for octet in self._text[self._at : end]:
            self._write_set(frozenset([ord(octet)]), False)
        self._at = min(end + 2, len(self._text))

    def _is_octal(self) -> bool:
        """Whether digits of two or more places stand for an octet: there are not as many groups before them."""
        found = NUMBER.match(self._text, self._at - 1)
        return found is not None and int(found.group()) > max(9, self._captures) and found.group()[0] in "1234567"

    def _back_reference(self, first: str) -> None:
        self._refuse(NO_BACK_REFERENCES, self._at - 2)
        if first not in "gk":
            found = NUMBER.match(self._text, self._at - 1)
            assert found is not None
            self._at = found.end()
            self._references.append((found.group(), self._at))
        self._repeatable = True

    def _octet(self, escaped: str, began: int) -> int:
        """The octet that an escape stands for; the position is behind the escaped character."""
        if escaped in OCTET_ESCAPES:
            return OCTET_ESCAPES[escaped]
        if escaped == "x":
            return self._hexadecimal()
        if escaped in "01234567":
            found = OCTAL.match(self._text, began + 1)
            assert found is not None
            self._at = found.end()
            return self._bounded(int(found.group(), 8))
        if escaped == "c":
            return self._control()
        if escaped in "LlUu":
            raise PatternError("PCRE does not support \\L, \\l, \\N{name}, \\U, or \\u", self._at)
        if escaped in UNSUPPORTED_ESCAPES:
            self._refuse(f"the escape \\{escaped} is not supported", began)
        return ord(escaped)

    def _hexadecimal(self) -> int:
        found = HEX.match(self._text, self._at)
        assert found is not None
        self._at = found.end()
        return self._bounded(int(found.group(1) or found.group(2) or "0", 16))

    def _bounded(self, octet: int) -> int:
        if octet > 0xFF:
            raise PatternError("character value in \\x{} or \\o{} is too large", self._at)
        return octet

    def _control(self) -> int:
        following = self._text[self._at : self._at + 1]
        self._at += 1
        if not following:
            raise PatternError("\\c at end of pattern", len(self._text))
        if ord(following) > 0x7F:
            raise PatternError("\\c must be followed by an ASCII character", self._at)
        return ord(following.upper()) ^ 0x40

    # -- character classes

    def _character_class(self) -> None:
        if POSIX_CLASS.match(self._text, self._at):
            raise PatternError("POSIX named classes are supported only within a class", self._at)
        self._at += 1
        negated = self._text.startswith("^", self._at)
        self._at += 1 if negated else 0
        first = self._at
        members: frozenset[int] = frozenset()
        while True:
            if self._at >= len(self._text):
                raise PatternError("missing terminating ] for character class", len(self._text))
            if self._text[self._at] == "]" and self._at > first:
                break
            members |= self._members()
        self._at += 1
        self._write_set(members, negated)

    def _members(self) -> frozenset[int]:
        """One member, one named set or one range."""
        found = self._member()
        is_range = len(found) == 1 and self._single and self._text.startswith("-", self._at)
        if not is_range or self._text[self._at + 1 : self._at + 2] in ("", "]"):
            return found
        self._at += 1
        last_at = self._at
        last = self._member()
        if not self._single:
            return found | last | frozenset(b"-")
        if max(last) < min(found):
            raise PatternError("range out of order in character class", last_at)
        return frozenset(range(min(found), max(last) + 1))

    def _member(self) -> frozenset[int]:
        """The next octet or set of a class; `_single` says which."""
        self._single = False
        named = POSIX_CLASS.match(self._text, self._at)
        if named is not None:
            return self._posix_class(named)
        character = self._text[self._at]
        began = self._at
        self._at += 1
        if character == "\\":
            escaped = self._text[self._at : self._at + 1]
            self._at += 1
            if not escaped:
                raise PatternError("\\ at end of pattern", len(self._text))
            if escaped.lower() in SET_ESCAPES:
                octets = SET_ESCAPES[escaped.lower()]
                return ANY - octets if escaped.isupper() else octets
            if escaped in "QE":
                self._refuse(NO_QUOTED_MEMBERS, began)
            self._single = True
            return frozenset([0x08 if escaped == "b" else self._octet(escaped, began)])
        self._single = True
        return frozenset([ord(character)])

    def _posix_class(self, named: re.Match[str]) -> frozenset[int]:
        if named.group(1) != ":":
            raise PatternError("POSIX collating elements are not supported", self._at)
        if named.group(3) not in POSIX_CLASSES:
            raise PatternError("unknown POSIX class name", self._at + 2)
        self._at = named.end()
        octets = POSIX_CLASSES[named.group(3)]
        if self._any_case and named.group(3) in ("upper", "lower"):
            octets = UPPER | LOWER
        return ANY - octets if named.group(2) else octets

    # -- groups

    def _open(self, leading: bool) -> None:
        began = self._at
        self._at += 1
        if self._text.startswith("*", self._at) and self._text[self._at + 1 : self._at + 2].isupper():
            raise UnsupportedPattern(NO_VERBS, began)
        if not self._text.startswith("?", self._at):
            self._captures += 1
            self._push("(?:")
            return
        self._at += 1
        kind = self._text[self._at : self._at + 1]
        if kind == "#":
            self._comment(leading)
        elif kind in ("=", "!"):
            self._look_ahead(kind == "=", leading, began)
        elif self._text.startswith(("<=", "<!"), self._at):
            self._refuse(NO_LOOK_BEHINDS, began)
            self._at += 2
            self._push("(?:")
        elif kind == ">":
            self._refuse(NO_ATOMS, began)
            self._at += 1
            self._push("(?:")
        elif kind in ("<", "'") or self._text.startswith("P<", self._at):
            self._named_group()
        elif self._text.startswith(("P=", "P>"), self._at):
            self._named_reference(began)
        elif kind != "" and kind in "|(RC&+0123456789":
            raise UnsupportedPattern(NO_CONDITIONS, began)
        else:
            self._options(leading, began)

    def _push(self, opening: str) -> None:
        self._groups.append(OpenGroup(self._any_case, self._dot_all))
        self._write(opening, False)

    def _close(self) -> None:
        if not self._groups:
            raise PatternError("unmatched parentheses", self._at)
        self._at += 1
        group = self._groups.pop()
        self._any_case = group.any_case
        self._dot_all = group.dot_all
        if group.before is None:
            self._write(")", True)
            return
        self.conditions.append((rf"\A(?:{''.join(self._written)})", group.wanted))
        self._written = group.before
        self._repeatable = False
        self._leading = True
        if QUANTIFIER.match(self._text, self._at):
            self._refuse(NO_LOOK_AHEADS, self._at)
            self._repeatable = True

    def _look_ahead(self, wanted: bool, leading: bool, began: int) -> None:
        self._at += 1
        if not leading:
            self._refuse(NO_LOOK_AHEADS, began)
            self._push("(?:")
            return
        group = OpenGroup(self._any_case, self._dot_all)
        group.before = self._written
        group.wanted = wanted
        self._groups.append(group)
        self._written = []
        self._repeatable = False

    def _comment(self, leading: bool) -> None:
        end = self._text.find(")", self._at)
        if end < 0:
            raise PatternError("missing ) after comment", len(self._text))
        self._at = end + 1
        self._leading = leading

    def _named_group(self) -> None:
        found = GROUP_NAME.match(self._text, self._at)
        assert found is not None
        name = found.group(1) or found.group(2) or ""
        if NUMBER.match(name):
            raise PatternError("group name must start with a non-digit", found.start(1))
        if not found.group().endswith((">", "'")) or not name:
            raise PatternError("syntax error in subpattern name (missing terminator)", found.end())
        if name in self._names:
            raise PatternError("two named subpatterns have the same name", found.end() - 1)
        self._at = found.end()
        self._captures += 1
        self._names[name] = None
        self._push("(?:")

    def _named_reference(self, began: int) -> None:
        found = REFERENCE.match(self._text, self._at)
        assert found is not None
        if not found.group().endswith(")"):
            raise PatternError("syntax error in subpattern name (missing terminator)", found.end())
        self._references.append((found.group(1), found.end() - 1))
        self._refuse(NO_BACK_REFERENCES, began)
        self._at = found.end()
        self._repeatable = True

    def _options(self, leading: bool, began: int) -> None:
        """Options for a group, or from here to the end of the group around them."""
        found = OPTIONS.match(self._text, self._at)
        given = "" if found is None else found.group(1) + (found.group(2) or "")
        if found is None or given.strip("imsxUJX"):
            raise self._unrecognized()
        if given.strip("is"):
            self._refuse(NO_OPTIONS, began)
        self._at = found.end()
        if found.group(3) == ":":
            self._push("(?:")
        else:
            self._leading = leading
        for option in found.group(1):
            self._set_option(option, True)
        for option in found.group(2) or "":
            self._set_option(option, False)

    def _unrecognized(self) -> PatternError:
        at = self._at
        while self._text[at : at + 1] in ("i", "m", "s", "x", "U", "J", "X", "-"):
            at += 1
        if at >= len(self._text):
            return PatternError("missing )", at)
        return PatternError("unrecognized character after (? or (?-", at)

    def _set_option(self, option: str, on: bool) -> None:
        if option == "i":
            self._any_case = on
        elif option == "s":
            self._dot_all = on


def _in_both_cases(octets: frozenset[int]) -> frozenset[int]:
    swapped = [octet ^ 0x20 for octet in octets if octet in UPPER or octet in LOWER]
    return octets.union(swapped)


def _set_expression(octets: frozenset[int], negated: bool) -> str:
    """The set in RE2's syntax: ranges of octets in hexadecimal."""
    if len(octets) == 1 and not negated:
        return f"\\x{min(octets):02x}"
    ranges: list[str] = []
    first = -1
    for octet in sorted(octets):
        if octet - 1 not in octets:
            first = octet
        if octet + 1 not in octets:
            ranges.append(f"\\x{first:02x}-\\x{octet:02x}")
    if not ranges:
        return r"[\x00-\xff]" if negated else r"[^\x00-\xff]"
    return f"[{'^' if negated else ''}{''.join(ranges)}]"
