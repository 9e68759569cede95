"""Every Python example of the documentation, run against a real node.

The blocks of a page share a namespace and a node of their own; 5672 and 15672 in their source become its ports. A block
right above a `text` block prints exactly that. For a page that shows how to make certificates and how to configure TLS,
or keys and tokens, its openssl commands are run, its configuration starts the node, and 5671 becomes the node's TLS
port. A web server that a page starts gets a free port in place of 8000. On a page that kills its node with `kill -9`,
the node is started again with the same data, and the blocks that follow are a program of their own.
"""

import functools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.docs import run_blocks
from tests.docs.pages import Block, Page, pages, starts_cluster
from tests.node.serving import Serving
from tests.support.ports import free_port

RUN_DEADLINE_S = 90
SPARK_DEADLINE_S = 480

PAGES_WITH_EXAMPLES = [page for page in pages() if page.blocks_in("python") and not starts_cluster(page)]


def page_id(page: Page) -> str:
    return page.name


@pytest.fixture(params=PAGES_WITH_EXAMPLES, ids=page_id)
def page(request: pytest.FixtureRequest) -> Page:
    chosen: Page = request.param
    return chosen


@dataclass
class Stage:
    """Examples that share a namespace, and the command that ended the node before them, if any."""

    kill: str = ""
    blocks: list[Block] = field(default_factory=list)


@pytest.fixture
def start(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Serving]]:
    """Start the node of a page, in the folder of its examples, with its data in `var`."""
    monkeypatch.chdir(tmp_path)
    for command in openssl_commands(page):
        subprocess.run(command, shell=True, check=True, capture_output=True, timeout=RUN_DEADLINE_S)
    started: list[Serving] = []

    def start_node() -> Serving:
        options = ("--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", "var")
        started.append(Serving(tmp_path, *options, configuration=own_configuration(page)))
        return started[-1]

    yield start_node
    for serving in started:
        serving.end()


def stages(page: Page) -> list[Stage]:
    """The page's examples, parted where it kills its node."""
    parts = [Stage()]
    for block in page.blocks:
        if block.language == "python":
            parts[-1].blocks.append(block)
        elif block.language == "console":
            kills = [line for line in block.text.splitlines() if line.startswith("$ kill -9 ")]
            parts += [Stage(line.removeprefix("$ ")) for line in kills]
    return parts


def openssl_commands(page: Page) -> list[str]:
    """The commands of a block; a backslash at a line's end continues the command."""
    shown = "".join(block.text for block in page.blocks_in("console")).replace("\\\n", "")
    return [line.removeprefix("$ ") for line in shown.splitlines() if line.startswith("$ openssl ")]


def own_configuration(page: Page) -> str:
    """That of a page whose examples need one: for TLS, or for tokens."""
    chosen = ("listeners.ssl.", "auth_backends.")
    found = [block.text for block in page.blocks_in("ini") if any(key in block.text for key in chosen)]
    return found[0].replace("5671", "127.0.0.1:0").replace("localhost:8000", f"localhost:{web_port()}") if found else ""


@functools.cache
def web_port() -> str:
    """Of the web server that a page starts, in place of 8000."""
    return str(free_port())


def pointed_at(node: Serving, source: str) -> str:
    """The source with the node's ports in place of the usual ones."""
    for protocol, usual in (("amqp", "5672"), ("amqps", "5671"), ("http", "15672")):
        if re.search(rf"\b{usual}\b", source):
            source = re.sub(rf"\b{usual}\b", str(node.address(protocol)[1]), source)
    return source.replace('("127.0.0.1", 8000)', f'("127.0.0.1", {web_port()})')


@pytest.mark.timeout(SPARK_DEADLINE_S + RUN_DEADLINE_S)
def test_every_example_does_what_its_page_says(page: Page, start: Callable[[], Serving], tmp_path: Path) -> None:
    node = start()
    for stage in stages(page):
        if stage.kill:
            subprocess.run(stage.kill, shell=True, check=True, cwd=tmp_path, timeout=RUN_DEADLINE_S)
            assert node.exit_code() == -signal.SIGKILL
            node = start()
        check_examples(page, stage.blocks, node, tmp_path)
    assert node.stop() == 0


def check_examples(page: Page, blocks: list[Block], node: Serving, directory: Path) -> None:
    check_blocks(page, blocks, [[page.name, block.line, pointed_at(node, block.text)] for block in blocks], directory)


def check_blocks(page: Page, blocks: list[Block], sources: list[list[str | int]], directory: Path) -> None:
    """Run the sources (the blocks with rewritten ports), and compare the output of each."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", run_blocks.__file__],
        input=json.dumps(sources),
        capture_output=True,
        text=True,
        timeout=SPARK_DEADLINE_S if uses_spark(page) else RUN_DEADLINE_S,
        cwd=directory,
        env={**os.environ, **environment()},
    )
    assert uses_spark(page) or ended.stderr == "", ended.stderr
    assert ended.returncode == 0, ended.stderr
    printed = json.loads(ended.stdout)
    expected = [page.output_below(block) for block in blocks]
    said = [(block.line, text) for block, text in zip(blocks, expected, strict=True) if text is not None]
    found = [(block.line, out) for block, out, text in zip(blocks, printed, expected, strict=True) if text is not None]
    assert found == said


def uses_spark(page: Page) -> bool:
    """Spark starts slowly, and writes its messages to standard error."""
    starting = ("import SparkSession", "import session")
    return any(word in block.text for block in page.blocks_in("python") for word in starting)


def environment() -> dict[str, str]:
    """The virtual environment is activated, so that Spark's workers use this Python, too."""
    return {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}


def test_a_node_is_killed_where_a_page_says_so() -> None:
    killed = {page.name for page in PAGES_WITH_EXAMPLES if len(stages(page)) > 1}
    assert {"README.md", "docs/consuming.md", "docs/queues.md"} <= killed


def test_there_are_examples_to_run() -> None:
    names = {page.name for page in PAGES_WITH_EXAMPLES}
    assert {"docs/publishing.md", "docs/consuming.md", "docs/queues.md", "docs/operating.md", "docs/access.md"} <= names


def test_every_output_in_the_manual_is_that_of_an_example() -> None:
    loose = [
        f"{page.name}:{block.line}"
        for page in pages()
        for block in page.blocks_in("text")
        if page.path.parent.name == "docs" and (block.follows is None or block.follows.language != "python")
    ]
    assert loose == []
