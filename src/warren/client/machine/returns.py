"""Which of the publishes it was that came back.

A `basic.return` has the message and where it was to go, but not its number. It is the oldest undecided publish that was
sent as mandatory and looks the same: exchange, routing key, properties and body. Two that look the same may be taken
for each other only if one of them was routed and a later one was not, and then their contents were the same anyway.

A broker may have changed the properties (it takes `BCC` out, and what its interceptors do nobody knows). So if nothing
looks the same it is the oldest with the same route and body; or else with the same route: some publish came back, and
none of them may pass for one that was routed while another might.

Invariant: what is remembered here is mandatory, undecided, and has not come back.

Not here: what the publisher is told.
"""

from collections import deque
from typing import final

from mypy_extensions import i64

Looks = tuple[str, str, bytes, bytes]
"""Exchange, routing key, payload of the header frame, body."""


@final
class MandatoryPublishes:
    """Remembers what mandatory messages look like until they are decided."""

    def __init__(self) -> None:
        # as a rule the first of them goes first
        self._numbers: dict[Looks, deque[int]] = {}
        self._looks: dict[int, Looks] = {}

    def __len__(self) -> int:
        return len(self._looks)

    def sent(self, number: int, looks: Looks) -> None:
        self._looks[number] = looks
        numbers = self._numbers.get(looks)
        if numbers is None:
            self._numbers[looks] = deque([number])
        else:
            numbers.append(number)

    def came_back(self, looks: Looks) -> int:
        """The number of the publish that looks like this; 0 if none does."""
        numbers = self._numbers.get(looks)
        number = self._most_alike(looks) if numbers is None else numbers[0]
        if number:
            self._forget(number)
        return number

    def _most_alike(self, looks: Looks) -> int:
        exchange, routing_key, _, body = looks
        same_route = 0
        for number, each in self._looks.items():
            if each[0] == exchange and each[1] == routing_key:
                if each[3] == body:
                    return number
                if same_route == 0:
                    same_route = number
        return same_route

    def decided(self, first: i64, last: i64) -> None:
        at: i64 = first
        while at <= last and self._looks:
            if int(at) in self._looks:
                self._forget(int(at))
            at += 1

    def _forget(self, number: int) -> None:
        looks = self._looks.pop(number)
        numbers = self._numbers[looks]
        numbers.remove(number)
        if not numbers:
            del self._numbers[looks]
