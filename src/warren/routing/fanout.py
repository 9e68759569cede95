"""The fanout exchange: every binding is followed, whatever its key.

Not here: anything that looks at a message.
"""

from typing import final

from warren.routing.exchange import Binding, Matcher
from warren.routing.route import Subject


@final
class FanoutMatcher(Matcher):
    """All bindings."""

    def __init__(self) -> None:
        super().__init__(cacheable=True)
        self.bindings: dict[Binding, Binding] = {}

    def add(self, binding: Binding) -> None:
        self.bindings[binding] = binding

    def remove(self, binding: Binding) -> None:
        del self.bindings[binding]

    def match(self, subject: Subject, found: list[Binding]) -> None:
        found.extend(self.bindings)
