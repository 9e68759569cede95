"""Every class of the compiled core is of the plain kind `type`, not of one like `ABCMeta`.

Compiled classes do not go through `ABCMeta.__new__`, so what Python remembers of questions like `isinstance(queue,
OwnQueue)` would be remembered for all of them at once: one question that code outside the core asks would answer others
wrongly. Methods are marked as abstract all the same, which is for the type checker.

The classes themselves are asked, because what a class is derived from may be so for reasons that its module does not
show; compiled or not, they are of the same kind.
"""

from importlib import import_module
from pathlib import Path

import pytest

from tests.architecture.source_tree import PACKAGE, pure_modules


def module_name(path: Path) -> str:
    inside = path.relative_to(PACKAGE.parent).with_suffix("")
    return ".".join(inside.parts).removesuffix(".__init__")


def classes_of(name: str) -> list[type]:
    """Those that the module defines, not those that it takes from elsewhere."""
    values = vars(import_module(name)).values()
    return [value for value in values if isinstance(value, type) and value.__module__ == name]


def unlike_others(classes: list[type]) -> list[str]:
    return [f"{one.__module__}.{one.__qualname__}" for one in classes if type(one) is not type]


def test_no_class_of_the_core_is_remembered_by_what_it_is_derived_from() -> None:
    classes = [one for path in pure_modules() for one in classes_of(module_name(path))]
    assert len(classes) > len(pure_modules())
    assert unlike_others(classes) == []


@pytest.mark.parametrize("name", ["collections.abc", "enum"])
def test_classes_of_another_kind_are_found(name: str) -> None:
    found = [value for value in vars(import_module(name)).values() if isinstance(value, type)]
    assert unlike_others(found)
