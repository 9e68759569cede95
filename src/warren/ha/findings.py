"""What a check has to say: sentences, and how bad each is.

Not here: how it comes to them (`ha.verdict`, `ha.cluster_verdict`).
"""

from dataclasses import dataclass
from typing import Final

GOOD: Final = "good"
REMARK: Final = "remark"
WARNING: Final = "warning"
WRONG: Final = "wrong"


@dataclass(frozen=True)
class Finding:
    """`wrong` is what keeps the deployment from doing what it is for, `warning` what will, some day."""

    level: str
    sentence: str


def good(sentence: str) -> Finding:
    return Finding(GOOD, sentence)


def remark(sentence: str) -> Finding:
    return Finding(REMARK, sentence)


def warning(sentence: str) -> Finding:
    return Finding(WARNING, sentence)


def wrong(sentence: str) -> Finding:
    return Finding(WRONG, sentence)


def listed(names: list[str], at_most: int = 5) -> str:
    """Names in a sentence; of many, the first ones and how many more there are."""
    shown = names[:at_most]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
