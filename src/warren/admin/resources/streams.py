"""Streams, to read: how far consumers with a name and groups have come, and who of a group reads which partition.

Each node tells of the streams, and partitions, that it is the home of.

Not here: streams as queues (`resources.queues`).
"""

from collections.abc import Iterable

from warren.admin.cluster.forwarding import ALONE
from warren.admin.http.answers import Answer, json_answer
from warren.admin.http.call import Call
from warren.admin.http.faults import not_found
from warren.admin.http.levels import in_vhost, manager
from warren.admin.http.router import Resource
from warren.admin.listing.listed import Listed, Row, whole
from warren.admin.listing.rows import answer_list
from warren.admin.station import Station
from warren.admin.views.streams import progress_rows
from warren.broker.vhost import Vhost
from warren.stream.stream import Stream


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/stream/groups": Resource(manager, {"GET": all_groups}),
        "/api/stream/groups/{vhost}": Resource(in_vhost, {"GET": groups_of_vhost}),
        "/api/stream/groups/{vhost}/{name}": Resource(in_vhost, {"GET": groups_of_stream}),
    }


async def all_groups(call: Call) -> Answer:
    """Groups and named consumers of streams: where they are, and by how much they lag."""
    return await _answer(call, _rows(call, call.entered_vhosts()))


async def groups_of_vhost(call: Call) -> Answer:
    """The same, of one virtual host."""
    return await _answer(call, _rows(call, [call.vhost()]))


async def groups_of_stream(call: Call) -> Answer:
    """The same, of one stream; of all its partitions if it has any."""
    name = call.params["name"]
    if name not in call.vhost().topology.queues:
        raise not_found()
    rows = _rows(call, [call.vhost()])
    return await _answer(call, [row for row in rows if name in (row["stream"], row["queue"])])


def _rows(call: Call, vhosts: Iterable[Vhost]) -> list[Row]:
    node = call.station.facts.name
    streams = [queue for vhost in vhosts for queue in vhost.own_queues() if isinstance(queue, Stream)]
    return [row for stream in streams for row in progress_rows(stream, node)]


async def _answer(call: Call, rows: list[Row]) -> Answer:
    """With those of the other nodes, partition by partition."""
    if call.part is not None:
        return json_answer(rows)
    told = await call.station.peers.ask_all(call.question(ALONE))
    rows += [row for answer in told.values() if answer.status == 200 for row in answer.document]
    return await answer_list(call, Listed(sorted(rows, key=_place), whole(_itself), _name), paginated=False)


def _place(row: Row) -> tuple[str, str, int, str]:
    partition = row["partition"]
    return row["vhost"], row["stream"], -1 if partition is None else partition, row["name"]


def _itself(row: Row) -> Row:
    return row


def _name(row: Row) -> str:
    return str(row["name"])
