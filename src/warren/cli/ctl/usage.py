"""The words of help: all verbs, one verb, and the verb that was perhaps meant.

Not here: printing them and the exit code (`cli.ctl.run`).
"""

import difflib
import sys
import textwrap
from collections.abc import Mapping
from typing import Final, TextIO

from warren.cli.ctl.verb import Verb

COMMAND: Final = "warren ctl"
GENERAL: Final = """\
short      | long                | meaning
-----------|---------------------|--------------------------------------------------------------
           | --http URL          | where the HTTP API is; WARREN_HTTP, else http://127.0.0.1:15672
           | --user NAME         | as whom to ask; WARREN_USER, else guest
           | --password WORD     | with which password; WARREN_PASSWORD, else guest; - asks for it
           | --ca-file FILE      | the certificates to trust for https; the system's unless given
           | --cookie-file FILE  | the cookie of a node that is stopped; WARREN_CLUSTER__COOKIE_FILE, else var/cookie
-n <node>  | --node <node>       | which node of a cluster is meant
-p <vhost> | --vhost <vhost>     | which virtual host is meant; / unless given
-q         | --quiet             | print only what was asked for
-s         | --silent            | the same, and no table header
-t <s>     | --timeout <s>       | how many seconds to wait for an answer
-l         | --longnames         | accepted, has no effect
           | --formatter NAME    | table, pretty_table, json, csv or erlang
           | --no-table-headers  | no header line
           | --dry-run           | check the words, print what would be done, do nothing
-?         | --help              | this text"""


def usage_line(verb: Verb) -> str:
    return f"{COMMAND} [--node <node>] [--longnames] [--quiet] {verb.name} {verb.usage}".rstrip()


def overview(groups: Mapping[str, list[Verb]], stream: TextIO) -> str:
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


def page(verb: Verb, stream: TextIO) -> str:
    """One verb in full."""
    parts = ["", heading("Usage", stream), "", usage_line(verb), "", f"{verb.summary}.", ""]
    if verb.columns:
        columns = textwrap.fill(", ".join(sorted(verb.columns)), 110, initial_indent="\t", subsequent_indent="\t")
        parts += [heading("Columns", stream), "", columns, ""]
    parts += [f"Example: {COMMAND} {verb.example or verb.name}", ""]
    parts += [heading("General Options", stream), "", GENERAL, ""]
    return "\n".join(parts)


def unknown(name: str, groups: Mapping[str, list[Verb]]) -> str:
    """There is no such verb; which one is near."""
    names = [verb.name for verbs in groups.values() for verb in verbs]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    if near:
        return f"\nCommand '{name}' not found. \nDid you mean '{near[0]}'? \n"
    return f"\nCommand '{name}' not found. \n{overview(groups, sys.stderr)}"


def heading(words: str, stream: TextIO) -> str:
    """Bold on a terminal, plain anywhere else."""
    return f"\033[1m{words}\033[0m" if stream.isatty() else words
