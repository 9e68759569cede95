"""The headers exchange: a binding is followed when the message's headers are those its arguments ask for.

The argument `x-match` says how many must be there: `all` (also when it is absent) or `any`. Other arguments that
begin with `x-` are not compared, unless `x-match` is `all-with-x` or `any-with-x`. An argument without a value asks
only that the header is there. A binding with nothing to compare matches every message under `all` and none under
`any`.

Not here: when two values are equal (`comparison`).
"""

from typing import Final, final

from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.model.terms import term, type_name
from warren.routing.comparison import matching
from warren.routing.exchange import Binding, Matcher
from warren.routing.route import Subject
from warren.wire.values import Table

MATCH_KINDS: Final = ("all", "any", "all-with-x", "any-with-x")


@final
class HeaderPattern:
    """What one binding asks for."""

    def __init__(self, arguments: Table) -> None:
        kind = arguments.get("x-match", "all")
        with_x = kind == "all-with-x" or kind == "any-with-x"
        self.any: bool = kind == "any" or kind == "any-with-x"
        self.names: list[str] = []
        self.values: list[object] = []
        for name, value in arguments.items():
            if name != "x-match" and (with_x or not name.startswith("x-")):
                self.names.append(name)
                self.values.append(value)

    def accepts(self, headers: Table) -> bool:
        for at in range(len(self.names)):
            name = self.names[at]
            wanted = self.values[at]
            matches = name in headers and (wanted is None or matching(wanted, headers[name]))
            if matches == self.any:
                return self.any
        return not self.any


@final
class HeadersMatcher(Matcher):
    """Bindings and their patterns, tried one by one."""

    def __init__(self) -> None:
        super().__init__(cacheable=False)
        self.patterns: dict[Binding, HeaderPattern] = {}

    def check(self, routing_key: str, arguments: Table) -> None:
        if "x-match" not in arguments:
            return
        kind = arguments["x-match"]
        if not isinstance(kind, str):
            raise ChannelFault(
                PRECONDITION_FAILED,
                f"Invalid x-match field type {type_name(kind)} (value {term(kind)}); expected longstr",
            )
        if kind not in MATCH_KINDS:
            raise ChannelFault(
                PRECONDITION_FAILED,
                f"Invalid x-match field value {term(kind)}; expected all, any, all-with-x, or any-with-x",
            )

    def add(self, binding: Binding) -> None:
        self.patterns[binding] = HeaderPattern(binding.arguments)

    def remove(self, binding: Binding) -> None:
        del self.patterns[binding]

    def match(self, subject: Subject, found: list[Binding]) -> None:
        headers = subject.headers()
        for binding, pattern in self.patterns.items():
            if pattern.accepts(headers):
                found.append(binding)
