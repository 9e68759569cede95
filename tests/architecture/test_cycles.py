"""Modules of warren form no import cycle, imports for type checking included.

A cycle means that no module in it can be read alone. Imports inside functions count as well.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.architecture.source_tree import PACKAGE, imported_names, python_files


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def import_graph() -> dict[str, set[str]]:
    paths = {module_name(path): path for path in python_files("src") if path.is_relative_to(PACKAGE)}
    return {
        name: {_module(found, paths) for _, found in imported_names(path)} - {"", name} for name, path in paths.items()
    }


def _module(name: str, paths: Mapping[str, Path]) -> str:
    """The module that an imported name is, or is in."""
    return name if name in paths else name.rpartition(".")[0] if name.rpartition(".")[0] in paths else ""


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for other in graph[name]:
            if other not in order:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], order[other])
        if lowest[name] == order[name]:
            component = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(component) > 1:
                found.append(sorted(component))

    for name in graph:
        if name not in order:
            visit(name)
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = import_graph()
    assert len(graph) > 100
    assert cycles(graph) == []


@pytest.mark.parametrize(
    ("graph", "circle"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, ["a", "b", "c"]),
        ({"a": {"c"}, "b": {"a"}, "c": {"d"}, "d": {"c"}}, ["c", "d"]),
    ],
)
def test_a_circle_is_found(graph: dict[str, set[str]], circle: list[str]) -> None:
    assert cycles(graph) == [circle]
