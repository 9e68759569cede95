"""Modules and classes have specific names, and a class name is used once."""

import ast

import pytest

from tests.architecture.source_tree import PACKAGE, project_files, python_files, shown, syntax

VAGUE_WORDS = {"util", "utils", "helper", "helpers", "misc", "manager", "managers", "base", "info", "common"}


def test_no_module_or_package_has_a_vague_name() -> None:
    vague = [
        shown(path)
        for path in python_files("src", "tests")
        if VAGUE_WORDS & {word for part in (path.stem, path.parent.name) for word in part.lower().split("_")}
    ]
    assert vague == []


@pytest.mark.lengthy
def test_no_class_has_a_vague_name() -> None:
    suffixes = tuple(word.capitalize() for word in VAGUE_WORDS)
    vague = [
        f"{shown(path)}:{node.lineno} {node.name}"
        for path in python_files("src")
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.ClassDef) and node.name.endswith(suffixes)
    ]
    assert vague == []


# A blocking class has the name of its asynchronous class. Client and broker both have a connection, channels
# and messages. Jobs of the pipeline each have their settings, which users import from the job they run.
SHARED_NAMES = {
    "Channel",
    "Chaser",
    "Connection",
    "Consumer",
    "Message",
    "Puller",
    "Relay",
    "Requester",
    "Settings",
    "Template",
    "Transport",
}


def test_a_class_name_stands_for_one_thing() -> None:
    homes: dict[str, list[str]] = {}
    for path in python_files("src"):
        for node in syntax(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(shown(path))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1 and name not in SHARED_NAMES} == {}
    assert {name for name in SHARED_NAMES if len(homes.get(name, ())) < 2} == set()


@pytest.mark.lengthy
def test_every_module_says_what_it_is() -> None:
    silent = [
        shown(path)
        for path in python_files("src", "tests", "tools", "examples", "bench", "conformance")
        if path.read_text().strip() and not ast.get_docstring(syntax(path))
    ]
    assert silent == []


def test_every_package_of_warren_says_what_it_answers() -> None:
    packages = [path for path in PACKAGE.iterdir() if path.is_dir() and list(path.glob("*.py"))]
    silent = [
        shown(path)
        for path in packages
        if not (path / "__init__.py").exists() or not ast.get_docstring(syntax(path / "__init__.py"))
    ]
    assert silent == []


def test_every_shell_script_is_executable() -> None:
    blocked = [
        shown(path)
        for path in project_files()
        if path.suffix in {"", ".sh"} and path.read_bytes()[:2] == b"#!" and not path.stat().st_mode & 0o100
    ]
    assert blocked == []
