"""Whether a stream still has what is compared of it: what has expired would be called missing, and sent again.

A stream forgets its oldest messages first. So what a day needs is there if the stream has its very first message, or
one that arrived before the day began; without a day, everything is needed. Arrivals are what the broker knows; what a
message says of its own time is no later than that.

A reader begins where the stream began when this was asked. So what expires between then and the read is an error of
the reader, and not a gap.

`failOnDataLoss = 'false'` among the ledger's options compares what is left.

Not here: reading (`reconcile.sources`).
"""

import json
from datetime import datetime

from warren.pipeline.errors import PipelineError
from warren.pipeline.reconcile.settings import Source
from warren.spark.options import StreamOptions, read_options
from warren.spark.streams.link import Bounds
from warren.spark.streams.places import StreamPlaces

STARTING_OFFSETS = "startingOffsets"


def stream_options(source: Source, begins: datetime | None) -> dict[str, str]:
    """The options of a reader that leaves nothing out; a `PipelineError` if something has expired."""
    given = {"url": source.url, "stream": source.stream, **source.options}
    options = read_options(given)
    assert isinstance(options, StreamOptions)
    if not options.fail_on_data_loss or (begins is None and options.starting_offsets is not None):
        return given
    places = StreamPlaces(options.broker, options.stream)
    try:
        bounds = places.bounds()
        _check_reaches_back(places, bounds, source.stream, begins)
    finally:
        places.close()
    if options.starting_offsets is None:
        given[STARTING_OFFSETS] = json.dumps({str(partition): here.first for partition, here in bounds.items()})
    return given


def _check_reaches_back(places: StreamPlaces, bounds: dict[int, Bounds], stream: str, begins: datetime | None) -> None:
    cut = [partition for partition, here in bounds.items() if here.first > 0]
    if cut and begins is not None:
        since = places.resolve(STARTING_OFFSETS, f"timestamp:{round(begins.timestamp() * 1000)}", bounds)
        cut = [partition for partition in cut if since[str(partition)] <= bounds[partition].first]
    if cut:
        what = f"offsets 0 to {bounds[cut[0]].first - 1} of partition {cut[0]} of stream {stream!r} have expired"
        needed = "all of it is compared" if begins is None else f"nothing is left from before {begins.isoformat()}"
        raise PipelineError(f"{what}, and {needed}; the option failOnDataLoss = 'false' compares what is left")
