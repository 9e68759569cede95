"""Every class of the compiled core is of the plain kind `type`, not of one like `ABCMeta`.

Compiled classes do not go through `ABCMeta.__new__`, so all of them would share one cache of `isinstance` results: one
check outside the core could make others wrong. Methods are still marked as abstract, for the type checker.

The test inspects the classes, not the sources, because a base class in another module may set the metaclass. Compiled
and uncompiled classes have the same one.
"""

from importlib import import_module
from pathlib import Path

import pytest

from tests.architecture.source_tree import PACKAGE, pure_modules


def module_name(path: Path) -> str:
    inside = path.relative_to(PACKAGE.parent).with_suffix("")
    return ".".join(inside.parts).removesuffix(".__init__")


def classes_of(name: str) -> list[type]:
    """The classes that the module defines, without those it imports."""
    values = vars(import_module(name)).values()
    return [value for value in values if isinstance(value, type) and value.__module__ == name]


def unlike_others(classes: list[type]) -> list[str]:
    return [f"{one.__module__}.{one.__qualname__}" for one in classes if type(one) is not type]


def test_no_class_of_the_core_has_a_metaclass() -> None:
    classes = [one for path in pure_modules() for one in classes_of(module_name(path))]
    assert len(classes) > len(pure_modules())
    assert unlike_others(classes) == []


@pytest.mark.parametrize("name", ["collections.abc", "enum"])
def test_classes_with_a_metaclass_are_found(name: str) -> None:
    found = [value for value in vars(import_module(name)).values() if isinstance(value, type)]
    assert unlike_others(found)
