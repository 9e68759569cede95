"""What a user may do in a virtual host, by the names of things.

Three expressions say what it may configure (declare, delete), write to (publish, bind to) and read from (consume, get,
purge, bind from). On topic exchanges two more may look at routing keys. An expression is searched anywhere in a name;
an empty one matches the empty name alone, which nothing has that matters.

Judgements are remembered, so that a name costs one lookup, the most part of the time. What is remembered is bounded:
names may be invented by clients.

Invariant: a permission is never changed, only replaced, so what it remembers stays true.

Not here: when which of them is asked for (`access.rights`), expressions themselves (`model.patterns`).
"""

import re
from typing import Final, final

from warren.model.patterns import NamePattern

JUDGEMENTS_MAX: Final = 4096
NOTHING: Final = "^$"
NO_CLIENT: Final = ""


@final
class Sieve:
    """One expression, and which names it was found to match."""

    def __init__(self, expression: str) -> None:
        self.pattern: NamePattern = NamePattern(expression or NOTHING)
        self._judged: dict[str, bool] = {}

    def lets_through(self, name: str) -> bool:
        judged = self._judged.get(name)
        if judged is not None:
            return judged
        judged = self.pattern.matches(name)
        if len(self._judged) >= JUDGEMENTS_MAX:
            self._judged.clear()
        self._judged[name] = judged
        return judged


@final
class Permission:
    """One user's in one virtual host."""

    def __init__(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        self.user: str = user
        self.vhost: str = vhost
        self.configure: str = configure
        self.write: str = write
        self.read: str = read
        self.configures: Sieve = Sieve(configure)
        self.writes: Sieve = Sieve(write)
        self.reads: Sieve = Sieve(read)


@final
class TopicPermission:
    """One user's on one topic exchange: which keys it may publish with and bind with.

    `{username}` and `{vhost}` stand for its own; a client has no other names in this protocol, so `{client_id}` stays.
    """

    def __init__(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
        self.user: str = user
        self.vhost: str = vhost
        self.exchange: str = exchange
        self.write: str = write
        self.read: str = read
        self.writes: Sieve = Sieve(self._filled_in(write))
        self.reads: Sieve = Sieve(self._filled_in(read))

    def _filled_in(self, expression: str) -> str:
        # a name is a name here, whatever it would mean as an expression
        named = expression.replace("{username}", re.escape(self.user))
        return named.replace("{vhost}", re.escape(self.vhost))
