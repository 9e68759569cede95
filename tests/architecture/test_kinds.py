"""No class of the compiled core is of the kind `ABCMeta`.

Compiled classes do not go through `ABCMeta.__new__`, so what Python remembers of questions like `isinstance(queue,
OwnQueue)` would be remembered for all of them at once: one question that code outside the core asks would answer others
wrongly. Methods are marked as abstract all the same, which is for the type checker.
"""

import ast

from tests.architecture.source_tree import pure_modules, shown, syntax

KINDS = {"ABC", "ABCMeta", "Protocol"}


def test_no_class_of_the_core_is_remembered_by_what_it_is_derived_from() -> None:
    found = [
        f"{shown(path)}:{node.lineno}"
        for path in pure_modules()
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.ClassDef)
        for base in (*node.bases, *(keyword.value for keyword in node.keywords))
        for name in ast.walk(base)
        if isinstance(name, ast.Name | ast.Attribute) and (getattr(name, "id", "") or getattr(name, "attr", "")) in KINDS
    ]
    assert found == []
