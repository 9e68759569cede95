"""Settings, once they make sense.

Not here: where they come from (`settings.files`, `settings.builder`), what they may be (`settings.checking`).
"""

from dataclasses import dataclass, field

from warren.client.transport import Layout
from warren.client.uri import parse_uri

SEND_TIMEOUT_S = 60.0
WINDOW = 1000


@dataclass(frozen=True, slots=True)
class TemplateSettings:
    """What is fixed once for all that a program sends; `converter` is the name of one."""

    exchange: str = ""
    routing_key: str = ""
    converter: str = "json"
    mandatory: bool = True
    persistent: bool = True
    timeout_s: float = SEND_TIMEOUT_S
    window: int = WINDOW


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a program is told; `name` is shown to the broker's operators."""

    url: str = field(repr=False)
    name: str = ""
    layout: Layout = field(default_factory=Layout)
    template: TemplateSettings = field(default_factory=TemplateSettings)

    @property
    def vhost(self) -> str:
        return parse_uri(self.url).vhost
