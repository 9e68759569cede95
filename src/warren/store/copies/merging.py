"""What shelves hold together: spans of positions, and the runs a queue goes on with.

A run lies in one segment, and nothing of its level lies between its ends elsewhere. What lasts and what does not is
mostly written to the same segment, one as the other came. But a copy that was restarted has lost what does not last,
and got it again, into a later segment: there one goes on where the other stops, position by position.

Not here: what a shelf is (`store.copies.shelf`), what a queue does with runs (`queue.backlog`).
"""

from mypy_extensions import i64

from warren.model.copies import Span
from warren.model.journal import Holding, Run
from warren.store.copies.block import BLOCK, BLOCK_SHIFT, Block
from warren.store.copies.shelf import Shelf
from warren.store.holding_row import first_of_holding


def joined_spans(shelves: list[Shelf]) -> list[Span]:
    """Everything on any of the shelves, in order; spans do not touch."""
    blocks: dict[int, list[Block]] = {}
    for shelf in shelves:
        for number, block in shelf.blocks.items():
            if block.count > 0:
                blocks.setdefault(number, []).append(block)
    spans: list[Span] = []
    for number in sorted(blocks):
        bits = bytes(blocks[number][0].bits)
        if len(blocks[number]) > 1:
            together = 0
            for block in blocks[number]:
                together |= int.from_bytes(block.bits, "little")
            bits = together.to_bytes(512, "little")
        _add_spans(spans, i64(number) << BLOCK_SHIFT, bits)
    return spans


def _add_spans(spans: list[Span], start: i64, bits: bytes) -> None:
    """Those of one block, whose first position is `start`."""
    span: Span | None = spans[-1] if spans else None
    if span is not None and span.last + 1 != start:
        span = None
    at: i64 = 0
    while at < BLOCK:
        octet: i64 = bits[at >> 3]
        step: i64 = 8 if at & 7 == 0 and (octet == 0 or octet == 0xFF) else 1
        if octet & 1 << (at & 7) == 0:
            span = None
        elif span is None:
            span = Span(start + at, start + at + step - 1)
            spans.append(span)
        else:
            span.last += step
        at += step


def merged_runs(lasting: Shelf, passing: Shelf) -> list[Run]:
    """What one level has, in order."""
    runs: list[Run] = []
    group: list[Holding] = []
    end: i64 = -1
    holdings = [holding for holding in lasting.row.holdings + passing.row.holdings if holding.count > 0]
    for holding in sorted(holdings, key=first_of_holding):
        if holding.first > end:
            _add_group(runs, group, lasting, passing)
            group = []
        group.append(holding)
        end = max(end, holding.last)
    _add_group(runs, group, lasting, passing)
    return runs


def _add_group(runs: list[Run], group: list[Holding], lasting: Shelf, passing: Shelf) -> None:
    """Holdings that reach into one another."""
    if not group:
        return
    if any(holding.segment is not group[0].segment for holding in group):
        _add_by_position(runs, group, lasting, passing)
        return
    run = Run(group[0].segment, lasting.level, group[0].first)
    for holding in group:
        run.last = max(run.last, holding.last)
        run.count += holding.count
        run.body_bytes += holding.body_bytes
        run.deadlines = run.deadlines or holding.deadlines
    runs.append(run)


def _add_by_position(runs: list[Run], group: list[Holding], lasting: Shelf, passing: Shelf) -> None:
    """Of holdings in several segments each position is looked at: a run ends where the segment changes."""
    first: i64 = group[0].first
    last: i64 = first
    for holding in group:
        last = max(last, holding.last)
    run: Run | None = None
    number: i64 = first >> BLOCK_SHIFT
    while number <= last >> BLOCK_SHIFT:
        start: i64 = number << BLOCK_SHIFT
        begin: i64 = max(first - start, 0)
        end: i64 = min(last + 1 - start, BLOCK)
        found: list[tuple[int, Shelf]] = []
        for shelf in (lasting, passing):
            block = shelf.blocks.get(int(number))
            if block is not None:
                found += [(at, shelf) for at in block.held(begin, end)]
        found.sort(key=place_of)
        for at, shelf in found:
            position: i64 = start + at
            holding_there = shelf.row.across(position)
            assert holding_there is not None
            if run is None or run.segment is not holding_there.segment:
                run = Run(holding_there.segment, shelf.level, position)
                runs.append(run)
            run.add(position, shelf.blocks[int(number)].size_of(at))
            run.deadlines = run.deadlines or holding_there.deadlines
        number += 1


def place_of(found: tuple[int, Shelf]) -> int:
    return found[0]
