"""From words to a call: options before or after the verb, as rabbitmqctl takes them.

An option of the verb goes before one of all verbs: `warren ctl --user ops list_user_limits --user guest` asks as `ops`
for the limits of `guest`. What is not understood is collected and refused as a whole, once the verb is known.

Not here: what a verb takes (`cli.ctl.verbs`), and the words of help (`cli.ctl.usage`).
"""

import getpass
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from warren.cli.ctl.failure import USAGE, Misuse
from warren.cli.ctl.verb import Options, Verb

FORMATTERS: Final = ("table", "pretty_table", "json", "csv", "erlang")
SWITCHES: Final[dict[str, type]] = {
    "http": str,
    "user": str,
    "password": str,
    "ca-file": str,
    "cookie-file": str,
    "vhost": str,
    "node": str,
    "quiet": bool,
    "silent": bool,
    "longnames": bool,
    "timeout": int,
    "formatter": str,
    "no-table-headers": bool,
    "dry-run": bool,
    "help": bool,
    "version": bool,
}
ALIASES: Final = {
    "p": "vhost",
    "n": "node",
    "q": "quiet",
    "s": "silent",
    "l": "longnames",
    "t": "timeout",
    "h": "help",
    "?": "help",
}
NUMBER: Final = re.compile(r"-\d+(\.\d+)?$")


@dataclass
class CommandLine:
    """Words that were read; `shown` repeats them without the password of the operator."""

    verb: str | None = None
    arguments: list[str] = field(default_factory=list)
    switches: dict[str, Any] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)
    invalid: list[tuple[str, str]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    def refuse_invalid(self) -> None:
        formatter = self.switches.get("formatter", FORMATTERS[0])
        invalid = self.invalid if formatter in FORMATTERS else [*self.invalid, ("--formatter", formatter)]
        if invalid:
            lines = [f"{name} : {value}" for name, value in invalid]
            raise Misuse(USAGE, "\n".join(["Invalid options for this command:", *lines]))

    def options(self, environment: Mapping[str, str]) -> Options:
        given = self.switches
        return Options(
            http=given.get("http") or environment.get("WARREN_HTTP") or "http://127.0.0.1:15672",
            user=given.get("user") or environment.get("WARREN_USER") or "guest",
            password=_password(given.get("password", environment.get("WARREN_PASSWORD", "guest"))),
            ca_file=given.get("ca-file", ""),
            cookie_file=given.get("cookie-file", ""),
            vhost=given.get("vhost", "/"),
            node=given.get("node", ""),
            quiet="quiet" in given,
            silent="silent" in given,
            formatter=given.get("formatter", ""),
            headers="no-table-headers" not in given,
            dry_run="dry-run" in given,
            timeout_s=given.get("timeout"),
            own=self.own,
        )


def read(words: list[str], verbs: Mapping[str, Verb]) -> CommandLine:
    """Read the words after `warren ctl`."""
    line = CommandLine()
    position, plain = 0, False
    while position < len(words):
        word = words[position]
        position += 1
        line.shown.append(word)
        if plain or not _is_option(word):
            if line.verb is None:
                line.verb = word
            else:
                line.arguments.append(word)
        elif word == "--":
            plain = True
        else:
            following = words[position] if position < len(words) and not _is_option(words[position]) else None
            position += _take(line, word, following, verbs.get(line.verb or ""))
    return line


def _take(line: CommandLine, word: str, following: str | None, verb: Verb | None) -> int:
    """Take one option; how many of the following words were its value."""
    spelled, equals, attached = word.partition("=")
    name, kind, place = _meaning(line, spelled, verb)
    if kind is None:
        line.invalid.append((spelled, attached))
        return 0
    if kind is bool:
        place[name] = True
        return 0
    value = attached if equals else following
    if value is None:
        line.invalid.append((spelled, ""))
        return 0
    secret = place is line.switches and name == "password"
    if secret and equals:
        line.shown[-1] = f"{spelled}=***"
    elif not equals:
        line.shown.append("***" if secret else value)
    try:
        place[name] = kind(value)
    except ValueError:
        line.invalid.append((spelled, value))
    return 0 if equals else 1


def _meaning(line: CommandLine, spelled: str, verb: Verb | None) -> tuple[str, type | None, dict[str, Any]]:
    name = spelled.lstrip("-").replace("_", "-")
    if verb is not None:
        own = name if spelled.startswith("--") else verb.aliases.get(name, "")
        if own in verb.switches:
            return own, verb.switches[own], line.own
    name = name if spelled.startswith("--") else ALIASES.get(name, "")
    return name, SWITCHES.get(name), line.switches


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-" and not NUMBER.match(word)


def _password(given: str) -> str:
    if given != "-":
        return given
    return getpass.getpass("Password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
