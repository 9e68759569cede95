"""Settings made by a program, call by call.

    settings = (
        SettingsBuilder()
        .hosts("broker-1", "broker-2")
        .login("shop", password)
        .queue("SHOP_QUEUE")
        .build()
    )

Each call gives another builder and leaves the one it was called on as it was, so several settings may begin as one.
What is given is taken as it is: `${` means nothing here. `build` checks all of it as it would check a file.

Not here: what is allowed (`settings.checking`).
"""

from collections.abc import Mapping
from typing import Self

from warren.client.settings.checking import settings_of
from warren.client.settings.content import Settings
from warren.client.settings.section import Source, Tree
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, QueueLayout
from warren.wire.values import Table


class SettingsBuilder:
    """Immutable; begin with an empty one."""

    def __init__(self, tree: Tree | None = None) -> None:
        self._tree: Tree = tree or {}

    def build(self) -> Settings:
        """The settings; a `SettingsError` if they make no sense."""
        return settings_of(self._tree, Source())

    # where

    def url(self, url: str) -> Self:
        return self._with("connection", url=url)

    def hosts(self, *hosts: str) -> Self:
        """Names or addresses, with :PORT or without, to be tried in this order."""
        return self._with("connection", hosts=list(hosts))

    def login(self, user: str, password: str) -> Self:
        return self._with("connection", user=user, password=password)

    def vhost(self, name: str) -> Self:
        return self._with("connection", vhost=name)

    def tls(self, **options: str) -> Self:
        """With TLS; the options are those of the URL, such as `cacertfile`."""
        return self._with("connection", tls=True, **options)

    def options(self, **options: str | int | float) -> Self:
        """What else a URL may say, such as `heartbeat`."""
        return self._with("connection", **options)

    def name(self, name: str) -> Self:
        """What the broker's operators see."""
        return self._with("connection", name=name)

    # what must be there

    def exchange(
        self, name: str, kind: str = "direct", *, durable: bool = True, arguments: Table | None = None
    ) -> Self:
        return self._added("exchanges", name=name, type=kind, durable=durable, arguments=dict(arguments or {}))

    def queue(
        self,
        name: str,
        *,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Table | None = None,
    ) -> Self:
        return self._added(
            "queues",
            name=name,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            arguments=dict(arguments or {}),
        )

    def bind(self, exchange: str, queue: str, routing_key: str = "", *, arguments: Table | None = None) -> Self:
        return self._added(
            "bindings", exchange=exchange, queue=queue, routing_key=routing_key, arguments=dict(arguments or {})
        )

    def bind_exchange(
        self, source: str, destination: str, routing_key: str = "", *, arguments: Table | None = None
    ) -> Self:
        return self._added(
            "bindings",
            exchange=source,
            to_exchange=destination,
            routing_key=routing_key,
            arguments=dict(arguments or {}),
        )

    def layout(self, layout: Layout) -> Self:
        """All of a layout that was made elsewhere."""
        builder = self
        for exchange in layout.exchanges:
            builder = builder._with_exchange(exchange)
        for queue in layout.queues:
            builder = builder._with_queue(queue)
        for binding in layout.bindings:
            builder = builder._with_binding(binding)
        return builder

    # how it sends

    def template(self, **settings: str | bool | int | float) -> Self:
        """The fields of `TemplateSettings`."""
        return self._with("template", **settings)

    def _with_exchange(self, each: ExchangeLayout) -> Self:
        return self.exchange(each.name, each.kind, durable=each.durable, arguments=each.arguments)

    def _with_queue(self, each: QueueLayout) -> Self:
        return self.queue(
            each.name,
            durable=each.durable,
            exclusive=each.exclusive,
            auto_delete=each.auto_delete,
            arguments=each.arguments,
        )

    def _with_binding(self, each: BindingLayout) -> Self:
        bind = self.bind_exchange if each.to_exchange else self.bind
        return bind(each.source, each.destination, each.routing_key, arguments=each.arguments)

    def _with(self, section_name: str, /, **values: object) -> Self:
        section = self._tree.get(section_name)
        assert section is None or isinstance(section, Mapping)
        return type(self)({**self._tree, section_name: {**(section or {}), **values}})

    def _added(self, list_name: str, /, **values: object) -> Self:
        items = self._tree.get(list_name)
        assert items is None or isinstance(items, list)
        return type(self)({**self._tree, list_name: [*(items or []), values]})
