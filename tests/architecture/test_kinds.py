"""Code that is not compiled asks only for the kinds that things are of, never for the abstract queues behind them.

Compiled classes do not go through `ABCMeta.__new__`, so what Python remembers of questions like `isinstance(queue,
QueuePort)` is remembered for all of that family at once: one question about the base would answer others wrongly.
"""

import ast

from tests.architecture.source_tree import pure_modules, python_files, shown, syntax

FAMILY = {"QueuePort", "DistantQueue", "StandIn"}


def test_nobody_uncompiled_asks_for_an_abstract_queue() -> None:
    compiled = set(pure_modules())
    asking = [
        f"{shown(path)}:{node.lineno}"
        for path in python_files("src")
        if path not in compiled
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        for asked in ast.walk(node.args[1])
        if isinstance(asked, ast.Name) and asked.id in FAMILY
    ]
    assert asking == []
