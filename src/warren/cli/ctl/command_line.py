"""Parses the command line of `warren ctl`, with options before or after the verb as in rabbitmqctl; and help texts.

An option of the verb wins over a general one of the same name: `warren ctl --user ops list_user_limits --user guest`
asks as `ops` for the limits of `guest`. Invalid options are collected and reported together once the verb is known.

Not here: options of a verb (`cli.ctl.verbs`), printing (`cli.ctl.run`).
"""

import difflib
import getpass
import re
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TextIO

from warren.cli.ctl.api import USAGE, UsageFailure
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
    """A parsed command line; `shown` repeats it without the operator's password."""

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
            raise UsageFailure(USAGE, "\n".join(["Invalid options for this command:", *lines]))

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
    """Parse the words after `warren ctl`."""
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
    """Parse one option; returns how many of the following words it used."""
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


COMMAND: Final = "warren ctl"
GENERAL: Final = """\
short      | long                | meaning
-----------|---------------------|--------------------------------------------------------------
           | --http URL          | where the HTTP API is; WARREN_HTTP, else http://127.0.0.1:15672
           | --user NAME         | user name; WARREN_USER, else guest
           | --password WORD     | password; WARREN_PASSWORD, else guest; - asks for it
           | --ca-file FILE      | CA certificates for https; the system's by default
           | --cookie-file FILE  | the cookie of a node that is stopped; WARREN_CLUSTER__COOKIE_FILE, else var/cookie
-n <node>  | --node <node>       | node of a cluster
-p <vhost> | --vhost <vhost>     | virtual host; / by default
-q         | --quiet             | print only what was asked for
-s         | --silent            | the same, and no table header
-t <s>     | --timeout <s>       | seconds to wait for a response
-l         | --longnames         | accepted, has no effect
           | --formatter NAME    | table, pretty_table, json, csv or erlang
           | --no-table-headers  | no header line
           | --dry-run           | check the command line, print what would be done, do nothing
-?         | --help              | this text"""


def usage_line(verb: Verb) -> str:
    return f"{COMMAND} [--node <node>] [--longnames] [--quiet] {verb.name} {verb.usage}".rstrip()


def verb_overview(groups: Mapping[str, list[Verb]], stream: TextIO) -> str:
    """Every verb with its summary."""
    synopsis = f"{COMMAND} [--node <node>] [--timeout <timeout>] [--longnames] [--quiet] <command> [<command options>]"
    parts = ["", heading("Usage", stream), "", synopsis, "", "Available commands:", ""]
    for title, verbs in groups.items():
        parts += [f"{heading(title, stream)}:", ""]
        parts += [f"   {verb.name:<29} {verb.summary}" for verb in verbs]
        parts.append("")
    parts += [heading("General Options", stream), "", GENERAL, ""]
    parts += [f"Use '{COMMAND} help <command>' to learn more about a specific command", ""]
    parts += [f"Example: {COMMAND} list_queues name messages consumers", ""]
    return "\n".join(parts)


def verb_page(verb: Verb, stream: TextIO) -> str:
    """One verb in full."""
    parts = ["", heading("Usage", stream), "", usage_line(verb), "", f"{verb.summary}.", ""]
    if verb.columns:
        columns = textwrap.fill(", ".join(sorted(verb.columns)), 110, initial_indent="\t", subsequent_indent="\t")
        parts += [heading("Columns", stream), "", columns, ""]
    parts += [f"Example: {COMMAND} {verb.example or verb.name}", ""]
    parts += [heading("General Options", stream), "", GENERAL, ""]
    return "\n".join(parts)


def unknown_verb(name: str, groups: Mapping[str, list[Verb]]) -> str:
    """The error for an unknown verb, with the closest known one."""
    names = [verb.name for verbs in groups.values() for verb in verbs]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    if near:
        return f"\nCommand '{name}' not found. \nDid you mean '{near[0]}'? \n"
    return f"\nCommand '{name}' not found. \n{verb_overview(groups, sys.stderr)}"


def heading(words: str, stream: TextIO) -> str:
    """Bold on a terminal, plain elsewhere."""
    return f"\033[1m{words}\033[0m" if stream.isatty() else words
