"""Every Python example of the documentation, run against a real node.

The blocks of a page share a namespace and a node of their own; 5672 in their source becomes the node's port. A block
right above a `text` block prints exactly that. A page that shows how to make certificates and how to configure TLS is
taken at its word: its openssl commands are run, its configuration starts the node, and 5671 becomes the node's TLS
port.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import run_blocks
from tests.docs.pages import Page, pages
from tests.node.serving import Serving

RUN_DEADLINE_S = 90

PAGES_WITH_EXAMPLES = [page for page in pages() if page.blocks_in("python")]


def page_id(page: Page) -> str:
    return page.name


@pytest.fixture(params=PAGES_WITH_EXAMPLES, ids=page_id)
def page(request: pytest.FixtureRequest) -> Page:
    chosen: Page = request.param
    return chosen


@pytest.fixture
def node(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """The node a page is about, started in the folder its examples run in."""
    monkeypatch.chdir(tmp_path)
    for command in openssl_commands(page):
        subprocess.run(command, shell=True, check=True, capture_output=True, timeout=RUN_DEADLINE_S)
    serving = Serving(tmp_path, "--amqp", "127.0.0.1:0", configuration=tls_configuration(page))
    yield serving
    serving.end()


def openssl_commands(page: Page) -> list[str]:
    """What a reader of the page would type; a backslash at a line's end continues the command."""
    shown = "".join(block.text for block in page.blocks_in("console")).replace("\\\n", "")
    return [line.removeprefix("$ ") for line in shown.splitlines() if line.startswith("$ openssl ")]


def tls_configuration(page: Page) -> str:
    found = [block.text for block in page.blocks_in("ini") if "listeners.ssl." in block.text]
    return found[0].replace("5671", "127.0.0.1:0") if found else ""


def pointed_at(node: Serving, source: str) -> str:
    """The source with the node's ports in place of the usual ones."""
    for protocol, usual in (("amqp", "5672"), ("amqps", "5671")):
        if re.search(rf"\b{usual}\b", source):
            source = re.sub(rf"\b{usual}\b", str(node.address(protocol)[1]), source)
    return source


def test_every_example_does_what_its_page_says(page: Page, node: Serving, tmp_path: Path) -> None:
    blocks = page.blocks_in("python")
    sources = [[page.name, block.line, pointed_at(node, block.text)] for block in blocks]
    ended = subprocess.run(
        [sys.executable, "-W", "error", run_blocks.__file__],
        input=json.dumps(sources),
        capture_output=True,
        text=True,
        timeout=RUN_DEADLINE_S,
        cwd=tmp_path,
    )
    assert ended.stderr == "", ended.stderr
    assert ended.returncode == 0
    printed = json.loads(ended.stdout)
    expected = [page.output_below(block) for block in blocks]
    said = [(block.line, text) for block, text in zip(blocks, expected, strict=True) if text is not None]
    found = [(block.line, out) for block, out, text in zip(blocks, printed, expected, strict=True) if text is not None]
    assert found == said
    assert node.stop() == 0


def test_there_are_examples_to_run() -> None:
    names = {page.name for page in PAGES_WITH_EXAMPLES}
    assert {"docs/publishing.md", "docs/consuming.md", "docs/queues.md", "docs/operating.md"} <= names


def test_every_output_in_the_manual_is_that_of_an_example() -> None:
    loose = [
        f"{page.name}:{block.line}"
        for page in pages()
        for block in page.blocks_in("text")
        if page.path.parent.name == "docs" and (block.follows is None or block.follows.language != "python")
    ]
    assert loose == []
