"""From settings to a template that sends.

    async with open_template(read_settings("shop.toml")) as template:
        await template.send({"order": 7})

The layout is declared before anything is sent, and again whenever the connection was lost. When the block is left, what
was submitted is decided first; when it is left by an error the transport still finishes what it has in hand.

Not here: how the transport keeps itself alive (`client.recovering`).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from warren.client import recovering
from warren.client.settings import Settings
from warren.client.template.template import Template
from warren.client.transport import Transport


@asynccontextmanager
async def open_template(settings: Settings) -> AsyncIterator[Template]:
    """A template on a transport of its own."""
    transport = await open_transport(settings)
    try:
        template = Template.of(transport, settings.template)
        yield template
        await template.drain()
    finally:
        await transport.close()


async def open_transport(settings: Settings) -> Transport:
    """A transport that has found, or made, everything that the settings name."""
    transport = await recovering.open(settings.url, name=settings.name)
    try:
        await transport.declare(settings.layout)
    except BaseException:
        await transport.close()
        raise
    return transport
