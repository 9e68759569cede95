"""The examples of pages that start a cluster, run against it.

The page's `warren cluster` commands are run where they stand; the blocks between two such commands are a program of
their own. The default ports of a local cluster in their source become those of its nodes.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import Block, Page, pages, starts_cluster
from tests.docs.test_examples import check_blocks
from tests.support.ports import cluster_ports
from warren.cli.cluster.local_cluster import DEFAULTS

DEADLINE_S = 120.0
CLUSTER = "$ warren cluster "

PAGES = [page for page in pages() if starts_cluster(page) and page.blocks_in("python")]


def command(line: str, directory: Path) -> None:
    words = line.removeprefix(CLUSTER).split()
    free = cluster_ports(int(words[words.index("--nodes") + 1])) if words[0] == "up" else []
    done = subprocess.run(
        [sys.executable, "-m", "warren.cli.main", "cluster", *words, *free, "--data", str(directory)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done


def pointed_at(directory: Path, source: str) -> str:
    """The source with the nodes' ports in place of the usual ones."""
    nodes = json.loads((directory / "cluster.json").read_text())["nodes"]
    for kind in ("amqp", "http"):
        for index, node in enumerate(nodes):
            source = re.sub(rf"\b{DEFAULTS[kind] + index}\b", str(node[kind]), source)
    return source


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_example_does_what_its_page_says(page: Page, tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    blocks: list[Block] = []

    def run_blocks() -> None:
        sources = [[page.name, block.line, pointed_at(directory, block.text)] for block in blocks]
        if sources:
            check_blocks(page, blocks, sources, tmp_path)
        blocks.clear()

    try:
        for block in page.blocks:
            if block.language == "python":
                blocks.append(block)
            elif block.language == "console":
                for line in block.text.splitlines():
                    if line.startswith(CLUSTER):
                        run_blocks()
                        command(line, directory)
        run_blocks()
    finally:
        command(CLUSTER + "down", directory)


def test_there_is_a_page_with_a_cluster() -> None:
    assert "docs/mirroring.md" in {page.name for page in PAGES}
