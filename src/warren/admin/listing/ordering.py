"""The order of rows: by a column, then by what they are ordered by anyway, in the order of Erlang's terms.

Numbers come before null, false and true, those before objects and lists, and texts last; that is the order in which
RabbitMQ lists columns of mixed kinds.

Not here: getting at the column (`listing.columns`).
"""

from typing import Any

Place = tuple[int, Any]


def place(value: Any) -> Place:
    """Where a value stands: comparable with the place of any other."""
    if isinstance(value, bool):
        return (1, "true" if value else "false")
    if isinstance(value, int | float):
        return (0, value)
    if value is None:
        return (1, "null")
    if isinstance(value, str):
        return (3, value)
    if isinstance(value, dict):
        return (2, [(3, [(3, name), place(item)]) for name, item in sorted(value.items())])
    return (2, [place(item) for item in value])
