"""The page about migrating, compared with the command: its options and its orders."""

import typer

from tests.docs.pages import DOCS, codes, read_page
from warren.cli.main import app
from warren.cli.migrate import move

PAGE = read_page(DOCS / "migrating.md")


def options() -> list[str]:
    command = typer.main.get_command(app)
    found = command.commands["migrate"]  # type: ignore[attr-defined]
    return [option.opts[0] for option in found.params if option.name != "help"]


def test_the_table_of_options_is_that_of_the_command() -> None:
    assert [codes(row[0])[0] for row in PAGE.rows("option", "meaning")] == options()


def test_the_table_of_orders_has_every_order() -> None:
    rows = PAGE.rows("order", "choose it when", "order of messages", "who waits")
    assert {f"--first {order}" for order in move.ORDERS} <= {code for row in rows for code in codes(row[0])}
