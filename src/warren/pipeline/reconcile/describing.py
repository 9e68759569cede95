"""Settings as people write them: a TOML file, or two paths and some options.

::

    key = ["order_id"]                       # one name or several
    amounts = ["amount"]
    compared = ["currency"]
    authority = "orders"                     # default: the first ledger
    zone = "Europe/Berlin"                   # of the business day
    grace = "6h"
    tolerance = 0.01
    relative = 0.001

    [ledgers.orders]
    source = "parquet"
    path = "orders"
    time = "placed_at"

    [ledgers.payments]
    source = "csv"
    path = "payments.csv"
    time = "booked"
    zone = "America/New_York"
    where = "kind = 'payment'"
    columns = { order_id = "reference", amount = "cents * 0.01" }

Numbers are read as decimals. Paths are relative to the file's folder. The file has no passwords: it names the
environment variables that have them.

Not here: checks of the settings as a whole (`reconcile.settings`).
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from warren.pipeline.errors import PipelineError
from warren.pipeline.reconcile import sources
from warren.pipeline.reconcile.settings import LedgerSource, ReconcileLedger, ReconcileSettings, parse_day, parse_grace
from warren.pipeline.reconcile.sources import NEEDED_FIELDS

TOP: Final = ("key", "amounts", "compared", "authority", "day", "zone", "grace", "tolerance", "relative", "ledgers")
OF_SOURCE: Final = ("path", "url", "table", "query", "stream", "consumer", "schema", "user")
OF_LEDGER: Final = (
    "source",
    *OF_SOURCE,
    "password_env",
    "options",
    "columns",
    "time",
    "zone",
    "where",
    "may_be_empty",
    "in_flight",
)
SUFFIXES: Final = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}


def described(path: str, day: str = "", everything: bool = False) -> ReconcileSettings:
    """The settings of a file; a given day replaces the file's."""
    try:
        with open(path, "rb") as file:
            said = tomllib.load(file, parse_float=Decimal)
    except OSError as error:
        raise PipelineError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path} is not TOML: {error}") from None
    try:
        return _settings(said, Path(path).resolve().parent, day, everything)
    except PipelineError as error:
        raise PipelineError(f"{path}: {error}") from None


def two_paths(left: str, right: str, options: Mapping[str, Any]) -> ReconcileSettings:
    """Ledgers `left` and `right`; `options` are the file's keys, and keys of both ledgers."""
    of_both = {name: options[name] for name in ("time", "zone", "where", "may_be_empty") if options.get(name)}
    tables = {name: {**_place(path), **of_both} for name, path in (("left", left), ("right", right))}
    said = {name: options[name] for name in TOP if options.get(name)} | {"ledgers": tables}
    return _settings(said, Path.cwd(), options.get("day", ""), bool(options.get("everything")))


def _place(path: str) -> dict[str, str]:
    kind, separator, rest = path.partition(":")
    if separator and kind in ("parquet", "csv", "json"):
        return {"source": kind, "path": rest}
    return {"source": SUFFIXES.get(Path(path).suffix.lower(), "parquet"), "path": path}


def _settings(said: Mapping[str, Any], folder: Path, day: str, everything: bool) -> ReconcileSettings:
    _check_known("it", said, TOP)
    tables = said.get("ledgers")
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise PipelineError("ledgers are tables: [ledgers.NAME]")
    given_day = day or said.get("day", "")
    ledgers = tuple(_ledger(name, table, folder, bool(given_day)) for name, table in tables.items())
    return ReconcileSettings(
        ledgers=ledgers,
        key=_words(said, "key"),
        authority=_text(said, "authority") or (ledgers[0].name if ledgers else ""),
        amounts=_words(said, "amounts"),
        compared=_words(said, "compared"),
        day=given_day if isinstance(given_day, date) else parse_day(str(given_day)) if given_day else None,
        zone=_text(said, "zone") or "UTC",
        grace=parse_grace(str(said.get("grace", "0"))),
        tolerance=_number(said, "tolerance"),
        relative=_number(said, "relative"),
        everything=everything,
    )


def _ledger(name: str, table: Mapping[str, Any], folder: Path, of_a_day: bool) -> ReconcileLedger:
    try:
        _check_known("it", table, OF_LEDGER)
        source = _source(table, folder)
        return ReconcileLedger(
            name=name,
            source=source,
            columns=_texts(table, "columns"),
            time=_text(table, "time") or (sources.TIME_COLUMNS.get(source.kind, "") if of_a_day else ""),
            zone=_text(table, "zone") or "UTC",
            where=_text(table, "where"),
            may_be_empty=_truth(table, "may_be_empty"),
            in_flight=_in_flight(table, source),
        )
    except PipelineError as error:
        raise PipelineError(f"ledger {name}: {error}") from None


def _in_flight(table: Mapping[str, Any], source: LedgerSource) -> timedelta:
    given = _text(table, "in_flight")
    if source.kind != sources.OUTBOX:
        if given:
            raise PipelineError(f"in_flight is for an outbox, and source is {source.kind}")
        return timedelta()
    return parse_grace(given) if given else sources.IN_FLIGHT


def _source(table: Mapping[str, Any], folder: Path) -> LedgerSource:
    kind = _text(table, "source")
    if kind not in NEEDED_FIELDS:
        raise PipelineError(f"source is {kind!r}, and must be one of {', '.join(NEEDED_FIELDS)}")
    values = {name: _text(table, name) for name in OF_SOURCE}
    for name in NEEDED_FIELDS[kind]:
        if not values[name]:
            raise PipelineError(f"source {kind} needs {name}")
    path = values.pop("path")
    if path and "://" not in path:
        path = str(folder / path)
    if kind in sources.TIME_COLUMNS:
        values["url"] = _database(values["url"], folder)
    return LedgerSource(kind, path=path, password=_password(table), options=_texts(table, "options"), **values)


def _database(url: str, folder: Path) -> str:
    """An SQLite file is relative to the description's folder, as any other."""
    kind, separator, file = url.partition(":///")
    return (
        f"{kind}:///{folder / file}"
        if separator and kind.startswith("sqlite") and file[:5] not in ("", "file:")
        else url
    )


def _password(table: Mapping[str, Any]) -> str:
    variable = _text(table, "password_env")
    if variable and variable not in os.environ:
        raise PipelineError(f"the password should be in the environment as {variable}, and is not")
    return os.environ[variable] if variable else ""


def _check_known(whose: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    for name in table:
        if name not in known:
            near = difflib.get_close_matches(name, list(known), 1)
            hint = f"; did you mean {near[0]}?" if near else f"; it may say {', '.join(known)}"
            raise PipelineError(f"{whose} says {name!r}, which means nothing here{hint}")


def _text(table: Mapping[str, Any], name: str) -> str:
    value = table.get(name, "")
    if not isinstance(value, str):
        raise PipelineError(f"{name} must be text, not {value!r}")
    return value


def _truth(table: Mapping[str, Any], name: str) -> bool:
    value = table.get(name, False)
    if not isinstance(value, bool):
        raise PipelineError(f"{name} must be true or false, not {value!r}")
    return value


def _words(table: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = table.get(name, [])
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        raise PipelineError(f"{name} must be a name or a list of names, not {value!r}")
    return tuple(words)


def _texts(table: Mapping[str, Any], name: str) -> dict[str, str]:
    value = table.get(name, {})
    if not isinstance(value, dict) or not all(isinstance(each, str | int) for each in value.values()):
        raise PipelineError(f"{name} must be a table of texts")
    return {key: str(each).lower() if isinstance(each, bool) else str(each) for key, each in value.items()}


def _number(table: Mapping[str, Any], name: str) -> Decimal:
    value = table.get(name, 0)
    try:
        return Decimal(value) if isinstance(value, str | int | Decimal) else Decimal("nan")
    except InvalidOperation:
        raise PipelineError(f"{name} must be a number, not {value!r}") from None
