r"""Prometheus' text format, version 0.0.4.

A family is a name, a type, a help sentence and samples, which follow the head of the family. Backslash, quote and
newline are escaped in label values. AMQP names that are not UTF-8 are shown as `\xff`, because the format is UTF-8.

Not here: which families there are (`metrics.families`).
"""

from typing import NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4"

COUNTER = "counter"
GAUGE = "gauge"
UNTYPED = "untyped"
SUMMARY = "summary"

Value = int | float | None
"""None is NaN."""


class MetricFamily(NamedTuple):
    """One family; the name has no prefix."""

    name: str
    type: str
    help: str

    def head(self, prefix: str) -> str:
        name = prefix + self.name
        return f"# TYPE {name} {self.type}\n# HELP {name} {_help(self.help)}\n"


def labels(**values: str) -> str:
    """`{vhost="/",queue="q"}`; empty without labels."""
    if not values:
        return ""
    inside = ",".join(f'{name}="{label_value(value)}"' for name, value in values.items())
    return "{" + inside + "}"


def label_value(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: Value) -> str:
    if value is None:
        return "NaN"
    return repr(value)


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
