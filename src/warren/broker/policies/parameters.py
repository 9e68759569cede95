"""Parameters: settings of components of the node that are changed at run time, by virtual host and name.

A component validates its parameters. Global parameters belong to no component and may have any value.

Not here: the components; limits of virtual hosts, which RabbitMQ also calls parameters (`broker.access.limits`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import mypyc_attr


@final
class Parameter:
    """One parameter of a component. Its value is any JSON value.

    The definer is the user who set it. It is empty if the operator of the node did, by a file of definitions that is
    loaded at the start, and None if an older version set it.
    """

    def __init__(self, vhost: str, component: str, name: str, value: object, definer: str | None = "") -> None:
        self.definer: str | None = definer
        self.vhost: str = vhost
        self.component: str = component
        self.name: str = name
        self.value: object = value


@mypyc_attr(allow_interpreted_subclasses=True)
class ParameterComponent:
    """A component of the node that has parameters."""

    @abstractmethod
    def refusals(self, parameter: Parameter) -> list[str]:
        """All faults of a parameter."""
