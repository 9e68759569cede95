"""`warren client open`: the open items of an outbox, in the terminal, as JSON, or as a page.

Exit codes are those of `diff`: 0 nothing is open, 1 something is, 2 any error. So a script that checks for 1 never
mistakes an unreachable database for a stuck row.

Not here: reading the items (`client.ledgers`), the page (`cli.client.open_items_page`).
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warren.cli.client.databases import Database, engine_of, needed_packages, shown
from warren.errors import ConfigError, WarrenError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from warren.client.ledgers import Standing


EPILOG = (
    "Examples: warren client open --database postgresql://shop@localhost/shop\n\n"
    "warren client open --database sqlite:///shop.db --serve 127.0.0.1:8080"
)


def add_open_items(app: typer.Typer) -> None:
    app.command("open", epilog=EPILOG)(open_items)


def open_items(
    database: Database,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Number of rows to show of each status.")] = 20,
    html: Annotated[str, typer.Option(metavar="FILE", help="Also write an HTML page.")] = "",
    serve: Annotated[
        str, typer.Option(metavar="[HOST:]PORT", help="Serve the page to this host until SIGTERM or Ctrl-C.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> int:
    """Show open items of an outbox: to be sent, without a receipt, or failed.

    Exit codes: 0 nothing is open, 1 something is, 2 any error.
    """
    if serve and (html or as_json):
        raise ConfigError("--serve goes without --html and --json: both are served")
    engine = engine_of(database)
    try:
        return _served(engine, limit, serve) if serve else _shown(engine, limit, html, as_json)
    except ConfigError:
        raise
    except WarrenError as error:
        raise ConfigError(str(error)) from error
    except Exception as error:
        # any error: an uncaught exception would exit with 1, which means that something is open
        raise ConfigError(_unreadable(engine, error)) from error
    finally:
        engine.dispose()


def _unreadable(engine: "Engine", error: Exception) -> str:
    said = str(error).strip().partition("\n")[0]
    return f"{shown(engine)} has data that cannot be shown: {type(error).__name__}: {said}"


def _shown(engine: "Engine", limit: int, html: str, as_json: bool) -> int:
    from warren.cli.client.open_table import as_table, as_value
    from warren.client.ledgers import standing

    found = standing(engine, limit)
    if html:
        with needed_packages():
            from warren.cli.client.open_items_page import page
        _write(Path(html), page(found, shown(engine)))
    print(json.dumps(as_value(found), indent=2) if as_json else as_table(found, shown(engine)))
    return 1 if found.rows else 0


def _write(path: Path, text: str) -> None:
    """Write atomically: a reader sees the old page or the new one."""
    beside = path.with_name(f".{path.name}.unfinished")
    try:
        beside.write_text(text, "utf-8")
        beside.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None


def _served(engine: "Engine", limit: int, address: str) -> int:
    with needed_packages():
        from warren.cli.client.open_items_page import page
    from warren.cli.client.open_items_page import REFRESH_S, PageContent, address_of, serve
    from warren.cli.client.open_table import as_value
    from warren.client.ledgers import standing

    address_of(address)

    def content(path: str) -> PageContent | None:
        if path == "/":
            return PageContent("text/html", page(looked_at(), shown(engine), REFRESH_S))
        if path == "/open.json":
            return PageContent("application/json", json.dumps(as_value(looked_at())))
        return None

    def looked_at() -> "Standing":
        try:
            return standing(engine, limit)
        except WarrenError:
            raise
        except Exception as error:
            raise ConfigError(_unreadable(engine, error)) from error

    looked_at()
    serve(address, content)
    return 0
