"""What a load is told, checked before anything is read.

Not here: the files, which are looked at when the load begins (`load.files`).
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Final

from warren.client.batches import BATCH_BYTES_MAX
from warren.client.errors import UriError
from warren.client.uri import parse_uri
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import GLOB, Folder
from warren.pipeline.load.columns import column_types

MESSAGE_BYTES_MIN: Final = 100
NAME_BYTES_MAX: Final = 255
TIMEOUT_S: Final = 60.0


@dataclass(frozen=True)
class Shape:
    """What decides how records become messages; two loads of one shape make the same of the same files."""

    exchange: str = ""
    routing_key: str | None = None
    key_column: str | None = None
    max_bytes: int = BATCH_BYTES_MAX
    schema: str = ""
    delimiter: str = ","
    sheet: str = ""

    def described(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class LoadSettings:
    """One load: its files, where it keeps how far it is, and where it publishes."""

    files: tuple[str, ...]
    state: Folder
    url: str = field(repr=False)
    shape: Shape = Shape()
    quarantine: bool = False
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        if not self.files:
            raise PipelineError("a load needs files")
        for path in self.files:
            # what is staged would be loaded
            if not GLOB & set(path) and f"{self.state.uri}/".startswith(f"{Folder(path).uri}/"):
                raise PipelineError(f"the state {self.state} is in {path}, which is loaded; keep it elsewhere")
        try:
            parse_uri(self.url)
        except UriError as error:
            raise PipelineError(f"the URL of the broker: {error}") from None
        if not 0 < self.timeout_s <= 86_400:
            raise PipelineError(f"the timeout is a number of seconds up to 86400, not {self.timeout_s}")
        _check(self.shape)


def _check(shape: Shape) -> None:
    if shape.routing_key is not None and shape.key_column is not None:
        raise PipelineError("a routing key and a key column exclude each other: the column is the routing key")
    if not shape.exchange and not shape.routing_key and not shape.key_column:
        raise PipelineError("nothing says where messages go: give an exchange, a routing key or a key column")
    for what, text in (("exchange", shape.exchange), ("routing key", shape.routing_key or "")):
        if len(text.encode()) > NAME_BYTES_MAX:
            raise PipelineError(f"the {what} has more than {NAME_BYTES_MAX} bytes")
    if not MESSAGE_BYTES_MIN <= shape.max_bytes <= BATCH_BYTES_MAX:
        raise PipelineError(
            f"a message has at most {MESSAGE_BYTES_MIN} to {BATCH_BYTES_MAX} bytes, not {shape.max_bytes}"
        )
    if len(shape.delimiter) != 1 or not shape.delimiter.isascii() or shape.delimiter in '"\r\n':
        raise PipelineError(f"the delimiter is one character, not {shape.delimiter!r}")
    column_types(shape.schema)
