"""What nodes tell each other of the connections and channels they have, so that limits count those of all nodes.

Only those who have a limit are told of; where nobody has one, nothing is sent. A count is told when it moves, once for
all that moved in a turn, and by its value. A limit that is cleared is a count of none.

A node that is lost takes its counts with it; one that is linked anew begins with all it has.

    count     one octet: what is counted; eight: how many; a long string: of whom

Not here: what the counts are for (`broker.access.population`), how they travel (`broker.sharing.notices`).
"""

from typing import final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.access.limits import MAX_CHANNELS, MAX_CONNECTIONS, UNLIMITED, limit_of
from warren.broker.access.population import CHANNELS_OF, CONNECTIONS_IN, CONNECTIONS_OF, Count, Population
from warren.broker.vhost import Vhost
from warren.errors import ConnectionFault, PeerFault
from warren.model.figures import NodeFigures
from warren.wire.values import ArgumentReader, write_longlong, write_longstr


@final
class Headcounts:
    """One node's, of itself and of those it is connected to."""

    def __init__(self, population: Population, vhosts: dict[str, Vhost], figures: NodeFigures) -> None:
        self._population: Population = population
        self._vhosts: dict[str, Vhost] = vhosts
        self._figures: NodeFigures = figures
        self._channel_moves: i64 = 0
        # what every connected node knows of this one; those with limits who are here, or were
        self._told: dict[Count, int] = {}
        population.watch()

    # -- this node's

    def news(self) -> bytes:
        """What others do not know yet; nothing if they know all."""
        population = self._population
        moves = self._figures.channels_created + self._figures.channels_closed
        if moves != self._channel_moves:
            self._channel_moves = moves
            for kind, name in self._told:
                if kind == CHANNELS_OF:
                    population.user_changed(name)
        if not population.stirred_users and not population.stirred_vhosts:
            return b""
        news: dict[Count, int] = {}
        for name in population.stirred_vhosts:
            vhost = self._vhosts.get(name)
            self._look((CONNECTIONS_IN, name), None if vhost is None else vhost.limits, MAX_CONNECTIONS, news)
        for name in population.stirred_users:
            user = population.catalog.users.get(name)
            limits = None if user is None else user.limits
            self._look((CONNECTIONS_OF, name), limits, MAX_CONNECTIONS, news)
            self._look((CHANNELS_OF, name), limits, MAX_CHANNELS, news)
        population.stirred_vhosts = {}
        population.stirred_users = {}
        return _encoded(news)

    def everything(self) -> bytes:
        """What every other node knows, for one that comes."""
        return _encoded(self._told)

    def _look(self, what: Count, limits: dict[str, int] | None, limit: str, news: dict[Count, int]) -> None:
        if limits is None or limit_of(limits, limit) == UNLIMITED:
            if self._told.pop(what, 0):
                news[what] = 0
            return
        count = self._population.count(what)
        if count != self._told.get(what, 0):
            news[what] = count
        self._told[what] = count

    # -- the others'

    def heard(self, node: str, data: bytes) -> None:
        """What has moved there; `PeerFault` if it makes no sense."""
        counts = self._population.elsewhere.setdefault(node, {})
        reader = ArgumentReader(data, 0, len(data))
        try:
            while not reader.at_end():
                kind, count = int(reader.octet()), int(reader.longlong())
                name = reader.longstr().decode("utf-8", "surrogateescape")
                if count:
                    counts[kind, name] = count
                else:
                    counts.pop((kind, name), None)
        except ConnectionFault as fault:
            raise PeerFault("counts that end too soon") from fault

    def lost(self, node: str) -> None:
        self._population.elsewhere.pop(node, None)


def _encoded(counts: dict[Count, int]) -> bytes:
    out = BytesWriter()
    for (kind, name), count in counts.items():
        out.append(kind)
        write_longlong(out, count)
        write_longstr(out, name.encode("utf-8", "surrogateescape"))
    return out.getvalue()
