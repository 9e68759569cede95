"""One table of settings, read key by key; unread keys are refused.

The reader asks for each key with the type it must have, so the allowed keys are written down once, as those calls. A
properties file and environment variables have only text, so numbers and flags are parsed from text there.

Invariant: an error quotes the text of the file, never the value of a variable. Only the URL parser quotes options of a
URL.

Not here: the sections and keys (`settings.settings`).
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from warren.client.errors import SettingsError

SettingsTree = Mapping[str, object]

NAME_BYTES_MAX = 255
FLAGS = {"true": True, "false": False}
_VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_KINDS = {bool: "a flag", int: "a whole number", float: "a number", str: "text", list: "a list", dict: "a table"}


@dataclass(frozen=True)
class SettingsSource:
    """The origin of settings: a file or none, whether all values are text, and the variables it may use."""

    file: str = ""
    textual: bool = False
    environment: Mapping[str, str] | None = None

    def refuse(self, key: str, reason: str) -> NoReturn:
        where = f"{self.file}: " if self.file else ""
        raise SettingsError(f"{where}{key} {reason}", self.file, key)

    def resolved(self, text: str, key: str) -> str:
        """The text with its variables replaced."""
        environment = self.environment
        if environment is None:
            return text

        def value(found: re.Match[str]) -> str:
            if found[1] is None:
                return "${"
            try:
                return environment[found[1]]
            except KeyError:
                self.refuse(key, f"needs the environment variable {found[1]!r}, which is not set")

        return _VARIABLE.sub(value, text)


class SettingsSection:
    """A table at `key`; the root has the empty key."""

    def __init__(self, source: SettingsSource, values: object, key: str = "") -> None:
        self.source = source
        self.key = key
        if not isinstance(values, Mapping):
            source.refuse(key, f"is a table, not {_kind(values)}")
        self._values: SettingsTree = values
        self._asked: list[str] = []

    def has(self, name: str) -> bool:
        return name in self._values

    def refuse(self, name: str, reason: str) -> NoReturn:
        self.source.refuse(self._path(name), reason)

    def quoted(self, name: str) -> str:
        """The text of a value, for an error."""
        return repr(self._values.get(name))

    def text(self, name: str, default: str = "", *, max_bytes: int | None = None) -> str:
        value = self._take(name)
        if value is None:
            return default
        if not isinstance(value, str):
            self.refuse(name, f"is text, not {_kind(value)}")
        text = self.source.resolved(value, self._path(name))
        if max_bytes is not None and len(text.encode(errors="replace")) > max_bytes:
            self.refuse(name, f"is text of at most {max_bytes} bytes")
        return text

    def name(self, name: str) -> str:
        """The name of an exchange or queue, which is required."""
        text = self.text(name, max_bytes=NAME_BYTES_MAX)
        if not text:
            self.refuse(name, f"is missing: it is text of 1 to {NAME_BYTES_MAX} bytes")
        return text

    def short_text(self, name: str) -> str:
        return self.text(name, max_bytes=NAME_BYTES_MAX)

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        text = self.text(name, default)
        if text not in choices:
            self.refuse(name, f"is one of {', '.join(choices)}, not {self.quoted(name)}")
        return text

    def flag(self, name: str, default: bool) -> bool:
        value = self._take(name)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        text = self._from_text(name, value)
        if text is None or text.lower() not in FLAGS:
            self.refuse(name, f"is true or false, not {self.quoted(name)}")
        return FLAGS[text.lower()]

    def number(self, name: str, default: int, lowest: int, highest: int) -> int:
        value = self._take(name)
        if value is None:
            return default
        text = self._from_text(name, value)
        if text is not None and re.fullmatch(r"[+-]?[0-9]{1,20}", text):
            value = int(text)
        if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
            self.refuse(name, f"is a whole number from {lowest} to {highest}, not {self.quoted(name)}")
        return value

    def seconds(self, name: str, default: float, highest: float) -> float:
        """A number of seconds above zero."""
        value = self._take(name)
        if value is None:
            return default
        text = self._from_text(name, value)
        if text is not None and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
            value = float(text)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= highest:
            self.refuse(name, f"is a number of seconds above 0, at most {highest:g}, not {self.quoted(name)}")
        return float(value)

    def texts(self, name: str) -> list[str]:
        """A list; in text its items are separated by commas."""
        value = self._take(name)
        if value is None:
            return []
        text = self._from_text(name, value)
        if text is not None:
            return [each.strip() for each in text.split(",")]
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value) or not value:
            self.refuse(name, "is a list of text, and not an empty one")
        return [self.source.resolved(each, self._path(name)).strip() for each in value]

    def scalar(self, name: str) -> str | None:
        """A number or text, as text."""
        value = self._take(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self.refuse(name, f"is text or a number, not {_kind(value)}")
        return self.source.resolved(str(value), self._path(name))

    def section(self, name: str) -> "SettingsSection":
        value = self._take(name)
        return SettingsSection(self.source, {} if value is None else value, self._path(name))

    def sections(self, name: str) -> list["SettingsSection"]:
        """A list of tables."""
        value = self._take(name)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.refuse(name, f"is a list of tables, not {_kind(value)}")
        return [SettingsSection(self.source, each, f"{self._path(name)}[{index}]") for index, each in enumerate(value)]

    def whole(self) -> SettingsTree:
        """The whole table, for readers without fixed names."""
        self._asked = list(self._values)
        return self._values

    def end(self) -> None:
        """Refuse unread keys."""
        for name in self._values:
            if name not in self._asked:
                nearest = difflib.get_close_matches(name, self._asked, 1)
                hint = f"; did you mean {nearest[0]}?" if nearest else ""
                self.refuse(name, f"is not known: allowed here are {', '.join(self._asked)}{hint}")

    def _take(self, name: str) -> object:
        self._asked.append(name)
        return self._values.get(name)

    def _path(self, name: str) -> str:
        return f"{self.key}.{name}" if self.key else name

    def _from_text(self, name: str, value: object) -> str | None:
        """The text to parse a number or a flag from, if the value may be text."""
        if not isinstance(value, str):
            return None
        resolved = self.source.resolved(value, self._path(name))
        return resolved.strip() if self.source.textual or resolved != value else None


def _kind(value: object) -> str:
    return next((words for kind, words in _KINDS.items() if isinstance(value, kind)), type(value).__name__)
