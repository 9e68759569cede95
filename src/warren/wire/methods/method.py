"""What all methods have in common: their ids, their name, and that they can write their arguments.

Invariant: two methods are equal when they are the same on the wire.

Not here: the methods, a module per AMQP class; reading one from a frame (`methods.registry`).
"""

from abc import abstractmethod

from librt.strings import BytesWriter


class Method:
    """An AMQP method with its arguments. Subclasses also have a static `read(reader)`."""

    def __init__(self, class_id: int, method_id: int, name: str) -> None:
        self.class_id: int = class_id
        self.method_id: int = method_id
        # as the specification spells it: queue.declare-ok
        self.name: str = name

    @abstractmethod
    def write(self, out: BytesWriter) -> None:
        """The arguments, in the order of the wire."""

    def arguments_on_wire(self) -> bytes:
        out = BytesWriter()
        self.write(out)
        return out.getvalue()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Method)
            and self.name == other.name
            and self.arguments_on_wire() == other.arguments_on_wire()
        )

    def __hash__(self) -> int:
        return hash((self.name, self.arguments_on_wire()))

    def __repr__(self) -> str:
        return f"<{self.name} {self.arguments_on_wire()!r}>"


def flag_octet(first: bool, second: bool, third: bool = False, fourth: bool = False, fifth: bool = False) -> int:
    """Up to five bits in one octet, the first argument in the lowest."""
    return first | second << 1 | third << 2 | fourth << 3 | fifth << 4
