"""The page about templates and settings, compared with the code, both ways."""

import re

import pytest

from tests.docs.pages import DOCS, codes, pages, read_page
from warren.cli.client.commands import app
from warren.client.converters import CONVERTERS
from warren.client.errors import SettingsError
from warren.client.settings import SettingsBuilder, TemplateSettings, lint
from warren.client.settings.files import properties_settings, toml_settings
from warren.client.settings.section import SettingsSource
from warren.client.settings.settings import checked_settings
from warren.client.template import Overrides

PAGE = read_page(DOCS / "template.md")
SECTIONS = ("connection", "template", "exchanges", "queues", "bindings")
# the required keys of a list's items
NEEDED = {"exchanges": {"name": "a"}, "queues": {"name": "a"}, "bindings": {"exchange": "a", "queue": "a"}}


def known_keys(section: str) -> list[str]:
    """The allowed keys of a section, from the error message for an unknown key."""
    stranger: dict[str, object] = {**NEEDED.get(section, {}), "stranger": 1}
    tree = {section: [stranger] if section in NEEDED else stranger}
    with pytest.raises(SettingsError, match="stranger is not known") as refused:
        checked_settings(tree, SettingsSource())
    (allowed,) = re.findall(r"allowed here are (.*?)(?:;|$)", str(refused.value))
    dots = "[]." if section in NEEDED else "."
    return [f"{section}{dots}{name}" for name in allowed.split(", ")]


def test_the_table_of_keys_is_that_of_the_code() -> None:
    documented = [key for row in PAGE.rows("key", "value", "if not given") for key in codes(row[0])]
    assert sorted(documented) == sorted(key for section in SECTIONS for key in known_keys(section))


def test_the_defaults_of_a_template_are_those_of_the_page() -> None:
    rows = {codes(row[0])[0]: row[2] for row in PAGE.rows("key", "value", "if not given")}
    settings = TemplateSettings()
    for name in ("converter", "mandatory", "persistent", "timeout_s", "window"):
        value = getattr(settings, name)
        text = f"{value:g}" if isinstance(value, float) else str(value).lower()
        assert codes(rows[f"template.{name}"]) == [text]


def test_the_example_says_the_same_in_both_formats() -> None:
    [toml] = [block.text for block in PAGE.blocks_in("toml")]
    [properties] = [block.text for block in PAGE.blocks_in("properties")]
    environment = {"SHOP_PASSWORD": "word"}
    settings = toml_settings(toml, environment, "shop.toml")
    assert settings == properties_settings(properties, environment, "shop.properties")
    assert lint(settings) == []


def test_the_table_of_overrides_is_that_of_the_code() -> None:
    documented = [name for row in PAGE.rows("override", "meaning", "if not given") for name in codes(row[0])]
    assert sorted(documented) == sorted(Overrides.__annotations__)


def test_the_table_of_converters_is_that_of_the_code() -> None:
    rows = PAGE.rows("name", "converter", "payloads", "content type")
    documented = {codes(row[0])[0]: codes(row[3])[0] for row in rows}
    assert documented == {name: converter.content_type for name, converter in CONVERTERS.items()}


def test_the_table_of_rules_is_that_of_the_linter() -> None:
    broken = (
        SettingsBuilder()
        .vhost("SHOP_VHOST")
        .exchange("orders")
        .exchange("SHOP_TO_BILLING")
        .exchange("SHOP_EXCHANGE")
        .queue("BILLING_QUEUE")
        .bind("SHOP_TO_BILLING_EXCHANGE", "BANK_QUEUE")
    )
    documented = [codes(row[0])[0] for row in PAGE.rows("rule", "what it wants")]
    assert sorted(documented) == sorted({finding.rule for finding in lint(broken.build())})


def test_the_tables_of_commands_have_those_of_the_code() -> None:
    """Each page has the commands that it is about."""
    head = "| command | what it does |"
    found = [page for page in pages() if head in page.text]
    documented = [codes(row[0])[0] for page in found for row in page.rows("command", "what it does")]
    names = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]
    known = [each.removeprefix("warren client ").split()[0] for each in documented if each.startswith("warren client ")]
    assert sorted(known) == sorted(names)
