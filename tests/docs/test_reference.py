"""The tables of the documentation, compared with the code, both ways; and links, which resolve."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.docs.pages import DOCS, ROOT, Page, codes, pages, read_page
from warren.admin.api import api_router
from warren.broker.queues.arguments import CLASSIC_ARGUMENTS, OVERFLOWS, QUORUM_ARGUMENTS, STREAM_ARGUMENTS
from warren.broker.routing.exchange_types import EXCHANGE_TYPES, MATCH_KINDS
from warren.node.config.keys import IGNORED_KEYS, REFUSED_KEYS, SUPPORTED_KEYS
from warren.node.config.settings import NodeFlags, NodeSettings, parse_settings, read_settings

ALL_PAGES = pages()
LOGGED = re.compile(
    r"""(?:note|_put|write|info|warning|error|critical|LoopHolds)\(\s*
        (?:"(?:debug|info|warning|error|critical)",\s*)? "([a-z_]+\.[a-z_]+)" """,
    re.VERBOSE,
)


def manual(name: str) -> Page:
    return read_page(DOCS / name)


def first_codes(rows: list[list[str]]) -> list[str]:
    """The names in the first column; one may share its row with another."""
    return [name for row in rows for name in codes(row[0])]


def default_lines() -> list[str]:
    """Each default that is a value, as the line that would set it."""
    lines = []
    for key, default, _ in manual("operating.md").rows("key", "default", "meaning"):
        values = codes(default)
        if len(values) == 1 and default == f"`{values[0]}`":
            lines.append(values[0] if " = " in values[0] else f"{codes(key)[0]} = {values[0]}")
    return lines


def facts(settings: NodeSettings) -> dict[str, object]:
    """All settings of a node, comparable."""
    found: dict[str, Any] = {item.name: getattr(settings, item.name) for item in dataclasses.fields(settings)}
    found["broker"] = attributes_of(settings.broker)
    found["authentication"] = attributes_of(found["broker"].pop("authentication"))
    return found


def attributes_of(settings: object) -> dict[str, object]:
    return {name: getattr(settings, name) for name in dir(settings) if name[0] != "_"}


def settings_with(directory: Path, text: str) -> NodeSettings:
    config = directory / "warren.conf"
    config.write_text(text)
    return read_settings(NodeFlags(config=str(config)), {})


def test_the_table_of_configuration_keys_is_that_of_the_code() -> None:
    documented = first_codes(manual("operating.md").rows("key", "default", "meaning"))
    assert sorted(documented) == sorted(SUPPORTED_KEYS)


def test_the_keys_said_to_have_no_effect_are_those_of_the_code() -> None:
    rows = manual("operating.md").rows("about", "accepted, without effect")
    documented = [name for row in rows for name in codes(row[1])]
    assert sorted(documented) == sorted(IGNORED_KEYS)


def test_the_keys_said_to_be_refused_are_those_of_the_code() -> None:
    documented = [name for row in manual("operating.md").rows("about", "refused") for name in codes(row[1])]
    assert sorted(documented) == sorted(REFUSED_KEYS)


@pytest.mark.parametrize("line", default_lines())
def test_writing_down_a_default_changes_nothing(line: str, tmp_path: Path) -> None:
    assert facts(settings_with(tmp_path, line)) == facts(settings_with(tmp_path, ""))


def test_most_defaults_are_values_that_can_be_written_down() -> None:
    assert len(default_lines()) > 20


@pytest.mark.parametrize(
    "text", [pytest.param(b.text, id=f"{p.name}:{b.line}") for p in ALL_PAGES for b in p.blocks_in("ini")]
)
def test_a_configuration_in_the_documentation_is_understood_and_has_effect(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the node reads the keys of tokens with its settings
    monkeypatch.chdir(tmp_path)
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    Path("issuer.pem").write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert parse_settings(text, "example")
    assert settings_with(tmp_path, text).without_effect == []


def test_the_table_of_flags_is_that_of_the_command() -> None:
    documented = first_codes(manual("operating.md").rows("flag", "variable", "default", "meaning"))
    known = [f"--{item.name}" for item in dataclasses.fields(NodeFlags)]
    assert sorted(flag.split()[0] for flag in documented) == sorted(known)


def test_the_table_of_log_events_is_that_of_the_code() -> None:
    sources = [
        path
        for part in ("node", "admin", "bridges", "broker", "queue", "remote", "session", "store", "stream")
        for path in (ROOT / "src/warren" / part).rglob("*.py")
    ]
    written = {event for path in sources for event in LOGGED.findall(path.read_text())} | {"log.dropped"}
    documented = first_codes(manual("operating.md").rows("event", "level", "meaning"))
    assert sorted(documented) == sorted(written)


def test_the_table_of_paths_is_that_of_the_api() -> None:
    resources = api_router().resources
    known = {path: resource.methods() for path, resource in resources.items() if path.startswith("/api/")}
    documented = {
        f"/api{codes(path)[0]}": methods.split(", ")
        for path, methods, _ in manual("http.md").rows("path", "methods", "what")
    }
    assert documented == known


def test_the_table_of_queue_arguments_is_that_of_the_code() -> None:
    documented = first_codes(manual("queues.md").rows("argument", "value", "meaning"))
    assert sorted(documented) == sorted({*CLASSIC_ARGUMENTS, *QUORUM_ARGUMENTS})


def test_the_table_of_a_streams_arguments_is_that_of_the_code() -> None:
    documented = first_codes(manual("streams.md").rows("argument of a stream", "value", "meaning"))
    assert sorted(documented) == sorted(STREAM_ARGUMENTS)


def test_the_table_of_overflows_is_that_of_the_code() -> None:
    assert sorted(first_codes(manual("queues.md").rows("`x-overflow`", "what happens"))) == sorted(OVERFLOWS)


def test_the_table_of_exchange_types_is_that_of_the_code() -> None:
    assert sorted(first_codes(manual("publishing.md").rows("type", "follows a binding when"))) == sorted(EXCHANGE_TYPES)


def test_the_table_of_header_matches_is_that_of_the_code() -> None:
    documented = first_codes(manual("publishing.md").rows("`x-match`", "follows the binding when"))
    assert sorted(documented) == sorted(MATCH_KINDS)


def test_every_link_inside_the_project_leads_somewhere() -> None:
    broken = [
        f"{page.name}: {link}" for page in ALL_PAGES for link in page.links() if "://" not in link and dead(page, link)
    ]
    assert broken == []


def dead(page: Page, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.path.parent / path).resolve() if path else page.path
    if not target.exists():
        return True
    return bool(anchor) and anchor not in read_page(target).anchors()
