"""The tree of errors drawn at the head of `warren.errors` is the tree of its classes."""

import inspect
import re

from warren import errors

BRANCH = re.compile(r"^(?P<trunk>[ │├└─]*)(?P<name>[A-Z]\w+)(?:\s{2,}\S.*)?$")


def test_the_drawn_tree_of_errors_is_the_tree_of_the_classes() -> None:
    assert _drawn() == _defined()


def _drawn() -> dict[str, str]:
    """Each drawn name and the name it hangs from; a level is four characters of trunk."""
    parents: dict[str, str] = {}
    above: list[str] = []
    lines = inspect.cleandoc(errors.__doc__ or "").splitlines()
    start = next(number for number, line in enumerate(lines) if line.strip() == "WarrenError")
    indent = len(lines[start]) - len("WarrenError")
    for line in lines[start:]:
        found = BRANCH.match(line[indent:])
        if not line.strip() or found is None:
            break
        level = len(found["trunk"]) // 4
        above[level:] = [found["name"]]
        parents[found["name"]] = above[level - 1] if level else "Exception"
    return parents


def _defined() -> dict[str, str]:
    return {
        name: kind.__bases__[0].__name__
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception) and kind.__module__ == errors.__name__
    }
