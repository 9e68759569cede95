"""Prints the result of a verb: tab-separated lines in a pipe, a drawn table on a terminal, JSON, CSV or Erlang terms.

A pipe gets every character unchanged, as scripts expect; CSV is for scripts too. A terminal gets control characters
escaped (`cli.terminal`).

Not here: single values (`cli.ctl.terms`).
"""

import sys
from collections.abc import Iterator, Mapping

from warren.cli.ctl.terms import compact, erlang, shown, tagged
from warren.cli.ctl.verb import Rows, Text, VerbCall, VerbResult
from warren.cli.terminal import say, visible

# without a banner
DOCUMENTS = ("json", "csv")


def announce(call: VerbCall, sentence: str) -> None:
    """Print the banner."""
    if sentence and not (_hushed(call) or call.options.formatter in DOCUMENTS):
        say(sentence, flush=True)


def write(call: VerbCall, outcome: VerbResult) -> None:
    """Print the result."""
    if isinstance(outcome, Rows):
        for line in _rows(call, outcome):
            say(line)
    elif call.options.formatter == "json":
        say(compact(_document(call, outcome)))
    elif isinstance(outcome, Text) and not (outcome.chatty and _hushed(call)):
        say(outcome.words)


def _hushed(call: VerbCall) -> bool:
    return call.options.quiet or call.options.silent


def _document(call: VerbCall, outcome: Text | None) -> object:
    if outcome is None:
        return {"node": call.node, "result": "ok"}
    return {"message": outcome.words} if outcome.document is None else outcome.document


def _rows(call: VerbCall, rows: Rows) -> Iterator[str]:
    options = call.options
    headed = rows.headed and options.headers and not options.silent
    formatter = options.formatter or ("drawn" if sys.stdout.isatty() else "table")
    if formatter == "json":
        return _json(rows)
    if formatter == "csv":
        return _csv(rows)
    if formatter == "erlang":
        return _erlang(rows)
    if formatter == "table":
        return _table(rows, headed)
    return _drawn(rows, headed, lines=formatter == "pretty_table")


def _table(rows: Rows, headed: bool) -> Iterator[str]:
    empty = True
    for item in rows.items:
        if empty and headed:
            yield "\t".join(rows.columns)
        empty = False
        yield "\t".join(_cells(rows, item))
    if empty and not rows.streamed:
        yield ""


def _json(rows: Rows) -> Iterator[str]:
    separator = ""
    for item in rows.items:
        if not separator:
            yield "["
        yield separator + compact({name: tagged(item[name]) for name in rows.columns})
        separator = ","
    if separator:
        yield "]"
    else:
        yield "[\n]" if rows.streamed else "[]"


def _csv(rows: Rows) -> Iterator[str]:
    headed = False
    for item in rows.items:
        if not headed:
            yield _quoted(rows.columns)
            headed = True
        yield _quoted(_cells(rows, item))


def _erlang(rows: Rows) -> Iterator[str]:
    terms = ["[" + ",".join(f"{{{name},{erlang(item[name])}}}" for name in rows.columns) + "]" for item in rows.items]
    yield "[" + ",\n ".join(terms) + "]"


def _drawn(rows: Rows, headed: bool, *, lines: bool) -> Iterator[str]:
    from rich.box import SQUARE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text as Words

    table = Table(box=SQUARE, show_header=headed, show_lines=lines)
    for name in rows.columns:
        table.add_column(name, overflow="fold")
    for item in rows.items:
        table.add_row(*(Words(visible(cell)) for cell in _cells(rows, item)))
    if not table.row_count:
        return
    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else 1_000_000)
    with console.capture() as capture:
        console.print(table, soft_wrap=not terminal)
    yield capture.get().rstrip("\n")


def _cells(rows: Rows, item: Mapping[str, object]) -> list[str]:
    return [shown(item[name]) for name in rows.columns]


def _quoted(cells: list[str]) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)
