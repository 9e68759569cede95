r"""Settings from a file: TOML, or Java-style properties, by the ending of its name.

    # a comment, as is a line that begins with !
    connection.hosts = broker-1:5672, broker-2
    queues[0].name: BILLING_QUEUE
    queues[0].arguments.x-max-length 1000

Properties become the same tree as TOML. A key ends at `=`, `:` or a blank; a backslash at a line's end continues it;
`\t`, `\n`, `\r`, `\f`, `\uXXXX` and a backslash before anything else mean the same as in Java. The rest after
`arguments.` is one name, with its dots. Lists are numbered from 0 without gaps. A repeated key is refused, while Java
would silently take the last.

Not here: the keys (`settings.settings`).
"""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from warren.client.errors import SettingsError
from warren.client.settings.section import SettingsSource
from warren.client.settings.settings import Settings, checked_settings

ARGUMENTS = "arguments"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PAIR = re.compile(r"((?:\\.|[^\s=:\\])+)[ \t\f]*[=: \t\f]?[ \t\f]*(.*)", re.DOTALL)
_NUMBERED = re.compile(r"([^\[\]]+)\[([0-9]{1,5})\]")


def properties_tree(text: str, file: str) -> dict[str, object]:
    """Nested tables with text values."""
    tree: dict[str, object] = {}
    for number, line in _logical_lines(text):
        found = _PAIR.fullmatch(line)
        if found is None:
            raise SettingsError(f"{file} line {number}: it is not of the form key = value", file)
        key, value = _plain(found[1]), _plain(found[2])
        _put(tree, key, value, file)
    _check_lists(tree, "", file)
    return {name: _listed(value) for name, value in tree.items()}


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with content, each with its continuation lines, and the number of the first."""
    begun, whole = 0, ""
    for number, natural in enumerate(text.split("\n"), start=1):
        line = natural.removesuffix("\r").lstrip(" \t\f")
        if not begun:
            if not line or line[0] in "#!":
                continue
            begun = number
        # an even number of backslashes at the end are escaped backslashes
        if (len(line) - len(line.rstrip("\\"))) % 2:
            whole += line[:-1]
            continue
        yield begun, whole + line
        begun, whole = 0, ""
    if begun:
        yield begun, whole


def _plain(text: str) -> str:
    def meant(found: re.Match[str]) -> str:
        escaped = found[1]
        return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _ESCAPES.get(escaped, escaped)

    return _ESCAPED.sub(meant, text)


def _put(tree: dict[str, object], key: str, value: str, file: str) -> None:
    *above, last = _path(key)
    table = tree
    for step in above:
        inner = table.setdefault(step, {})
        if not isinstance(inner, dict):
            raise SettingsError(f"{file}: {key} is below a key that has a value of its own", file, key)
        table = inner
    if last in table:
        raise SettingsError(f"{file}: {key} is given twice; keep one of them", file, key)
    table[last] = value


def _path(key: str) -> list[str]:
    """The steps to a value; the index of a list item is a step `[N]`."""
    before, marker, name = key.partition(f".{ARGUMENTS}.")
    steps: list[str] = []
    for part in before.split("."):
        numbered = _NUMBERED.fullmatch(part)
        steps += [numbered[1], f"[{int(numbered[2])}]"] if numbered else [part]
    return [*steps, ARGUMENTS, name] if marker else steps


def _check_lists(table: dict[str, object], key: str, file: str) -> None:
    for name, value in table.items():
        if not isinstance(value, dict):
            continue
        inner = f"{key}.{name}" if key else name
        if _is_list(value) and sorted(value) != sorted(f"[{index}]" for index in range(len(value))):
            raise SettingsError(f"{file}: {inner} is numbered from [0] to [N] without gaps", file, inner)
        _check_lists(value, inner, file)


def _listed(value: object) -> object:
    if not isinstance(value, dict):
        return value
    if _is_list(value):
        return [_listed(value[f"[{index}]"]) for index in range(len(value))]
    return {name: _listed(each) for name, each in value.items()}


def _is_list(table: dict[str, object]) -> bool:
    return any(name.startswith("[") for name in table)


def read_settings(path: str | Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a file; a `SettingsError` says what to change."""
    file = str(path)
    suffix = Path(path).suffix
    if suffix == ".toml":
        return toml_settings(_text(file), environment, file)
    if suffix == ".properties":
        return properties_settings(_text(file), environment, file)
    raise SettingsError(f"{file}: a file of settings is named NAME.toml or NAME.properties", file)


def toml_settings(text: str, environment: Mapping[str, str], file: str) -> Settings:
    """The settings of a TOML text; `file` is its name in errors."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file}: it is not TOML: {error}", file) from None
    return checked_settings(tree, SettingsSource(file, textual=False, environment=environment))


def properties_settings(text: str, environment: Mapping[str, str], file: str) -> Settings:
    """The settings of a properties text; `file` is its name in errors."""
    return checked_settings(properties_tree(text, file), SettingsSource(file, textual=True, environment=environment))


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{file}: it cannot be read: {error.strerror}", file) from None
    except UnicodeDecodeError:
        raise SettingsError(f"{file}: it is not UTF-8 text", file) from None
