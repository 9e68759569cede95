"""Definitions: export to a file, import from one.

Not here: what they contain (`admin.resources.definitions`).
"""

import json
import os
import sys
from typing import Final

from warren.cli.ctl.api import DATA_ERROR, USAGE, UsageFailure, failed
from warren.cli.ctl.terms import compact
from warren.cli.ctl.verb import Text, Verb, VerbCall


def export_definitions(call: VerbCall) -> Text | None:
    document = compact(call.api.get("definitions"))
    path = call.arguments[0]
    if path == "-":
        return Text(document, json.loads(document))
    try:
        # it contains password hashes: only the owner may read it
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(document)
    except OSError as error:
        raise failed(f"{path} cannot be written: {error.strerror}") from error
    return None


def import_definitions(call: VerbCall) -> None:
    path = call.arguments[0] if call.arguments else "-"
    try:
        content = sys.stdin.buffer.read() if path == "-" else _content(path)
        json.loads(content)
    except ValueError as error:
        raise failed(f"Failed to deserialise input (format: JSON) (error: {error})", DATA_ERROR) from error
    call.api.post("definitions", body=content)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise failed(f"{path} cannot be read: {error.strerror}", DATA_ERROR) from error


def _check_export(call: VerbCall) -> None:
    _check_format(call)
    directory = os.path.dirname(call.arguments[0])
    if directory and not os.path.isdir(directory):
        raise UsageFailure(DATA_ERROR, f"Bad argument: Directory {directory} does not exist")


def _check_import(call: VerbCall) -> None:
    _check_format(call)
    if call.arguments and call.arguments[0] != "-" and not os.path.exists(call.arguments[0]):
        raise UsageFailure(DATA_ERROR, f"Bad argument: File {call.arguments[0]} does not exist")


def _check_format(call: VerbCall) -> None:
    chosen = str(call.own("format", "json")).lower()
    if chosen == "erlang":
        raise UsageFailure(USAGE, "Invalid options for this command:\n--format : erlang")
    if chosen != "json":
        raise UsageFailure(DATA_ERROR, "Bad argument: Format should be either json or erlang")


def _export_banner(call: VerbCall) -> str:
    path = call.arguments[0]
    return "" if path == "-" else f'Exporting definitions in JSON to a file at "{path}" ...'


def _import_banner(call: VerbCall) -> str:
    path = call.arguments[0] if call.arguments else "-"
    place = "standard input" if path == "-" else f'a file at "{path}"'
    return f"Importing definitions in JSON from {place} ..."


VERBS: Final = [
    Verb(
        "export_definitions",
        "Writes the definitions as JSON to a file, or - for standard output",
        export_definitions,
        '<file_path | "-"> [--format <json>] [--timeout <timeout>]',
        "export_definitions definitions.json",
        _export_banner,
        (1, 1),
        {"format": str},
        check=_check_export,
    ),
    Verb(
        "import_definitions",
        "Reads definitions as JSON from a file, or - for standard input",
        import_definitions,
        '<file_path | "-"> [--format <json>] [--skip-if-unchanged] [--timeout <timeout>]',
        "import_definitions definitions.json",
        _import_banner,
        (0, 1),
        {"format": str, "skip-if-unchanged": bool},
        check=_check_import,
    ),
]
