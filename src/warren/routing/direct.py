"""The direct exchange: a binding is followed when its key equals a routing key.

Not here: the default exchange, which has no bindings and routes by queue name (`topology`).
"""

from typing import final

from warren.routing.exchange import Binding, Matcher
from warren.routing.route import Subject


@final
class DirectMatcher(Matcher):
    """Bindings by their key."""

    def __init__(self) -> None:
        super().__init__(cacheable=True)
        self.by_key: dict[str, dict[Binding, Binding]] = {}

    def add(self, binding: Binding) -> None:
        bindings = self.by_key.get(binding.routing_key)
        if bindings is None:
            self.by_key[binding.routing_key] = {binding: binding}
        else:
            bindings[binding] = binding

    def remove(self, binding: Binding) -> None:
        bindings = self.by_key[binding.routing_key]
        del bindings[binding]
        if not bindings:
            del self.by_key[binding.routing_key]

    def match(self, subject: Subject, found: list[Binding]) -> None:
        for routing_key in subject.routing_keys:
            bindings = self.by_key.get(routing_key)
            if bindings is not None:
                found.extend(bindings)
