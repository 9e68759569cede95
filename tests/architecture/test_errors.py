"""The trees of errors drawn at the head of `warren.errors` and `warren.client.errors` are the trees of their classes.

Both are read from the source: a compiled module keeps no docstring.
"""

import ast
import re

import pytest

from tests.architecture.source_tree import PACKAGE, syntax

BRANCH = re.compile(r"^(?P<trunk>[ │├└─]*)(?P<name>[A-Z]\w+)(?:\s{2,}\S.*)?$")


@pytest.mark.parametrize(
    ("path", "root", "above"),
    [("errors.py", "WarrenError", "Exception"), ("client/errors.py", "ClientError", "WarrenError")],
)
def test_the_drawn_tree_of_errors_is_the_tree_of_the_classes(path: str, root: str, above: str) -> None:
    module = syntax(PACKAGE / path)
    assert _drawn(ast.get_docstring(module) or "", root, above) == _defined(module)


def _drawn(prose: str, root: str, above_root: str) -> dict[str, str]:
    """Each drawn name and the name it hangs from; a level is four characters of trunk."""
    parents: dict[str, str] = {}
    above: list[str] = []
    lines = prose.splitlines()
    roots = [number for number, line in enumerate(lines) if line.strip() == root]
    for line in lines[roots[0] :] if roots else []:
        found = BRANCH.match(line[lines[roots[0]].index(root) :])
        if found is None:
            break
        level = len(found["trunk"]) // 4
        above[level:] = [found["name"]]
        parents[found["name"]] = above[level - 1] if level else above_root
    return parents


def _defined(module: ast.Module) -> dict[str, str]:
    return {node.name: ast.unparse(node.bases[0]) for node in module.body if isinstance(node, ast.ClassDef)}
