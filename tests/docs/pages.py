"""The pages of the documentation, parsed: fenced blocks, tables, links.

Only as much Markdown as the pages use: a block is fenced by three backticks at the start of a line, a table is a run
of lines that begin with `|`, with dashes in the second line.

Not here: the rules for pages; each rule is a test.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"```(\S*)\s*")
_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"#+\s+(.*)")


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is that of its first line of text, `follows` the block it stands right below."""

    language: str
    text: str
    line: int
    follows: "Block | None"


@dataclass(frozen=True)
class Page:
    """One Markdown file."""

    path: Path
    text: str
    blocks: list[Block]

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    def blocks_in(self, language: str) -> list[Block]:
        return [block for block in self.blocks if block.language == language]

    def output_below(self, block: Block) -> str | None:
        """The output of a block according to the page; None if the page has none."""
        return next((each.text for each in self.blocks if each.follows is block and each.language == "text"), None)

    def rows(self, *header: str) -> list[list[str]]:
        """The rows of every table with exactly these column names."""
        found: list[list[str]] = []
        for table in _tables(self.prose()):
            if table[0] == list(header):
                found += table[2:]
        assert found, f"{self.name} has no table of {', '.join(header)}"
        return found

    def prose(self) -> str:
        """The page without its fenced blocks."""
        kept: list[str] = []
        inside = False
        for line in self.text.splitlines():
            if _FENCE.fullmatch(line):
                inside = not inside
            elif not inside:
                kept.append(line)
        return "\n".join(kept)

    def links(self) -> list[str]:
        return _LINK.findall(self.prose())

    def anchors(self) -> set[str]:
        """The anchors of the page: each heading in lower case, with dashes for spaces and without punctuation."""
        headings = [found[1] for line in self.prose().splitlines() if (found := _HEADING.fullmatch(line))]
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def pages() -> list[Page]:
    """README, ARCHITECTURE, SECURITY and everything in docs/ but the decision records."""
    paths = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "SECURITY.md", *sorted(DOCS.glob("*.md"))]
    return [read_page(path) for path in paths if path.exists()]


def starts_cluster(page: Page) -> bool:
    """True if the page's examples need a cluster."""
    return any("$ warren cluster up" in block.text for block in page.blocks_in("console"))


def read_page(path: Path) -> Page:
    text = path.read_text()
    return Page(path, text, _blocks(text.splitlines(), path))


def codes(cell: str) -> list[str]:
    """Everything in backticks."""
    return _CODE.findall(cell)


def _blocks(lines: list[str], path: Path) -> list[Block]:
    found: list[Block] = []
    last_end = 0
    at = 0
    while at < len(lines):
        opening = _FENCE.fullmatch(lines[at])
        at += 1
        if opening is None:
            continue
        begun = at
        while at < len(lines) and lines[at] != "```":
            at += 1
        assert at < len(lines), f"{path} line {begun}: the block has no end"
        adjacent = bool(found) and not "".join(lines[last_end : begun - 1]).strip()
        text = "".join(f"{line}\n" for line in lines[begun:at])
        found.append(Block(opening[1], text, begun + 1, found[-1] if adjacent else None))
        at += 1
        last_end = at
    return found


def _tables(prose: str) -> list[list[list[str]]]:
    """Tables as rows of cells; the header and the dashes included."""
    tables: list[list[list[str]]] = []
    inside = False
    for line in prose.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        if not inside:
            tables.append([])
            inside = True
        tables[-1].append([cell.strip() for cell in line.strip("| ").split("|")])
    return tables
