"""The text of a `rabbitmq.conf`-style file as a list of settings, each knowing where it was written.

One `key = value` a line. `#` starts a comment wherever it stands; a value in single or double quotes may hold one. A
key that is written twice means its last value.

Not here: which keys there are (`config.keys`), what their values mean (`config.values`).
"""

import re
from dataclasses import dataclass

from warren.errors import ConfigError

_SETTING = re.compile(
    r"""\s* (?P<key>[^\s=\#]+) \s* = \s*
        (?: '(?P<single>[^']*)' | "(?P<double>[^"]*)" | (?P<bare>[^\#]*?) )
        \s* (?:\#.*)?""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Setting:
    """A key, its value as text, and the words that lead to it in an error."""

    key: str
    value: str
    where: str


def read_file(path: str) -> list[Setting]:
    """The settings of a file; `ConfigError` names the file, the line and the reason."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise ConfigError(f"the configuration file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the configuration file {path} is not UTF-8 text") from error
    return parse(text, path)


def parse(text: str, path: str) -> list[Setting]:
    """The settings of a text, in order."""
    settings: list[Setting] = []
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if not settings and stripped[0] in "[{%":
            raise ConfigError(
                f"{path} line {number} is in RabbitMQ's classic Erlang format, which Warren does not read; "
                "write it as key = value lines"
            )
        settings.append(_setting(line, f"{path} line {number}"))
    return settings


def _setting(line: str, where: str) -> Setting:
    found = _SETTING.fullmatch(line)
    if found is None:
        raise ConfigError(f"{where} is not of the form key = value")
    value = next(text for text in found.group("single", "double", "bare") if text is not None)
    if not value and found["bare"] is not None:
        raise ConfigError(f"{where} gives {found['key']} no value")
    return Setting(found["key"], value, where)
