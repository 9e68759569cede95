"""The commands of the manual about membership, one by one, on real nodes."""

import re

from tests.cluster.member_nodes import MemberNodes, peer_of
from tests.docs.pages import DOCS, read_page
from tests.support.deadlines import eventually


def test_the_commands_of_the_manual_do_what_they_show(nodes: MemberNodes) -> None:
    """The page's hosts are one here, and its nodes do not listen where others expect them."""
    first, second = nodes.start("a"), nodes.start("b")
    commands = [command for block in manual_blocks() for command in commands_of(block)]
    assert [words[0] for words, _ in commands].count("start_app") == 3
    for words, shown in commands:
        there = [peer_of(first) if word == "a@here" else word.replace("@here", "@localhost") for word in words]
        expected = shown.replace("with a@here", f"with {peer_of(first)}").replace("@here", "@localhost")
        said = nodes.done(second, *there)
        assert not shown or said == expected
    all_members = {"a@localhost": ("disc", True), "c@localhost": ("ram", True)}
    eventually(lambda: nodes.members(first) == all_members)


def manual_blocks() -> list[str]:
    return [block.text for block in read_page(DOCS / "clustering.md").blocks if "$ warren ctl stop_app" in block.text]


def commands_of(block: str) -> list[tuple[list[str], str]]:
    """Each command without `warren ctl`, and its output on the page."""
    parts = re.split(r"^\$ warren ctl (.*)\n", block, flags=re.MULTILINE)[1:]
    return [(words.split(), shown) for words, shown in zip(parts[::2], parts[1::2], strict=True)]
