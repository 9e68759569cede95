"""Parameters: settings of parts of the node (components) that are changed while it runs, by virtual host and name.

A component says what its parameters may look like. Global parameters belong to no component and may be anything.

Not here: the components themselves; limits of virtual hosts, which operators also know as parameters (`access`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import mypyc_attr


@final
class Parameter:
    """One parameter of a component; its value is whatever JSON can say."""

    def __init__(self, vhost: str, component: str, name: str, value: object) -> None:
        self.vhost: str = vhost
        self.component: str = component
        self.name: str = name
        self.value: object = value


@mypyc_attr(allow_interpreted_subclasses=True)
class ParameterComponent:
    """A part of the node that has parameters."""

    @abstractmethod
    def refusals(self, parameter: Parameter) -> list[str]:
        """All that is wrong with a parameter."""
