"""The error that ends a job, in one sentence.

    PipelineError       the command prints it and exits with 1

Spark wraps an error of a task or a data source into several of its own, each with a traceback. `sentence` finds the
original one.

Not here: the errors themselves, which are raised where they are found.
"""

import re
from typing import Final

from warren.errors import WarrenError

OURS: Final = re.compile(r"^(?:[\w.]+Exception: )?warren\.[\w.]+: (.+)$", re.MULTILINE)
PYTHONS: Final = re.compile(r"^(?:builtins\.)?[A-Z]\w*(?:Error|Exception|Warning): (.+)$", re.MULTILINE)
SPARKS: Final = re.compile(r"\[([A-Z][A-Z_0-9.]+)\] (.+)")
JAVAS: Final = re.compile(r"^: [\w.$]+: (.+)$", re.MULTILINE)
QUERY: Final = re.compile(r"^Query \[id = [^\]]*\] terminated with exception: ")
SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w+;?\s*$")


class PipelineError(WarrenError):
    """A job cannot be done; it has no result."""


def sentence(error: BaseException) -> str:
    """The sentence of the cause: ours if there is one, else Python's, else Spark's, else Java's."""
    if isinstance(error, WarrenError):
        return str(error)
    text = str(error).strip()
    for pattern in (OURS, PYTHONS):
        found = pattern.findall(text)
        if found:
            return SQL_STATE.sub("", found[-1]).strip()
    spark_said = SPARKS.findall(text)
    if spark_said:
        return QUERY.sub("", SQL_STATE.sub("", spark_said[-1][1]).strip())
    java_said = JAVAS.search(text)
    if java_said is not None:
        return java_said[1].strip()
    first = text.splitlines()[0].strip() if text else ""
    return first or type(error).__name__
