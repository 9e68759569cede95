"""No function is longer than seventy lines. Modules have no limit."""

import ast

from tests.architecture.source_tree import python_files, shown, syntax

FUNCTION_LINES_MAX = 70
MEASURED = ("src", "tests", "tools", "examples", "bench", "conformance")


def test_no_function_is_longer_than_seventy_lines() -> None:
    too_long = [
        f"{shown(path)}:{node.lineno} {node.name}"
        for path in python_files(*MEASURED)
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert too_long == []
