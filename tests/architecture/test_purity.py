"""Everything from `broker` down is pure: no clock, socket, file, thread, random number or log.

So the simulator can run the same code with simulated faults, and a seed replays a run.
"""

import ast
import sys

from tests.architecture.source_tree import imported_names, pure_modules, shown, syntax

# Modules of the standard library that reach the world outside, or that differ from run to run.
WORLDLY_MODULES = {
    "asyncio", "concurrent", "contextvars", "ctypes", "fcntl", "fileinput", "getpass", "glob", "http", "io",
    "logging", "mmap", "multiprocessing", "os", "pathlib", "platform", "queue", "random", "resource", "sched",
    "secrets", "select", "selectors", "shutil", "signal", "socket", "socketserver", "sqlite3", "ssl", "subprocess",
    "sys", "tempfile", "threading", "time", "urllib", "uuid", "warnings",
}  # fmt: skip
ALLOWED_PACKAGES = {"warren", "librt", "mypy_extensions", "re2"}
WORLDLY_CALLS = {"open", "print", "input", "breakpoint", "exec", "eval"}
CLOCK_READERS = {"now", "utcnow", "today"}
CLOCK_OWNERS = {"datetime", "date"}


def test_no_pure_module_imports_the_outside_world() -> None:
    worldly = [
        f"{shown(path)}:{line} imports {name}"
        for path in pure_modules()
        for line, name in imported_names(path)
        if not _is_harmless(name.split(".")[0])
    ]
    assert pure_modules()
    assert worldly == []


def test_no_pure_module_opens_prints_or_evaluates() -> None:
    worldly = [
        f"{shown(path)}:{node.lineno} calls {node.func.id}"
        for path in pure_modules()
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WORLDLY_CALLS
    ]
    assert worldly == []


def test_no_pure_module_reads_a_clock_through_datetime() -> None:
    readers = [
        f"{shown(path)}:{node.lineno}"
        for path in pure_modules()
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Attribute) and node.attr in CLOCK_READERS and _ends_in(node.value, CLOCK_OWNERS)
    ]
    assert readers == []


def _is_harmless(top: str) -> bool:
    return top in ALLOWED_PACKAGES or (top in sys.stdlib_module_names and top not in WORLDLY_MODULES)


def _ends_in(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in names
    return isinstance(node, ast.Name) and node.id in names
