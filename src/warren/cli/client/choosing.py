"""`--set NAME=VALUE`: the settings of a job that a command runs, by the names that they have in a program.

Not here: what each means (`outbox.settings` and its like).
"""

import dataclasses
import difflib
from typing import Annotated, TypeVar, get_args, get_type_hints

import typer

from warren.client.errors import SettingsError
from warren.errors import ConfigError

T = TypeVar("T")

NONE = "none"

Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the job; may be given again.")
]


def chosen(kind: type[T], given: list[str] | None) -> T:
    """Settings with some of them chosen; a `ConfigError` for what is not known, or makes no sense."""
    kinds = get_type_hints(kind)
    names = [each.name for each in dataclasses.fields(kind)]  # type: ignore[arg-type]  # a dataclass, as all settings
    values: dict[str, object] = {}
    for each in given or []:
        name, separator, text = each.partition("=")
        if not separator:
            raise ConfigError(f"--set is NAME=VALUE, not {each!r}")
        if name not in names:
            nearest = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            raise ConfigError(f"--set knows {', '.join(names)}, not {name!r}{hint}")
        values[name] = _value(name, text, kinds[name])
    try:
        return kind(**values)
    except SettingsError as error:
        raise ConfigError(str(error)) from None


def _value(name: str, text: str, kind: object) -> object:
    """A number of that kind; `none` where there may be none."""
    kinds = get_args(kind) or (kind,)
    if text == NONE and type(None) in kinds:
        return None
    try:
        return int(text) if int in kinds else float(text)
    except ValueError:
        wanted = "a whole number" if int in kinds else "a number"
        raise ConfigError(f"--set {name} is {wanted}, not {text!r}") from None
