"""The exchange types: a matcher for each, and the checks of their arguments.

**direct**: a binding matches if its key equals a routing key. **fanout**: every binding matches.

**topic**: binding keys are patterns of words, kept in a trie. A key is split at its dots; the empty key has no words,
and `a.` has two, the second empty. In a pattern `*` matches exactly one word and `#` any number, including none. In a
routing key both are ordinary words. A run of wildcards is written with its `*` first and at most one `#` last, which
matches the same. The walk goes through the trie one word at a time with the set of nodes that match so far. A node
enters this set once a word, however many paths lead to it. A `#` node is entered together with its parent (it matches
no word) and stays in the set (it matches one more word). Invariant: every node except the root leads to a binding;
removing a binding prunes the nodes that led only to it.

Without a `#` inside its pattern a node is in the set for one word of a key. The words behind a `#` can be in the set at
every word, so a few hundred bindings like `#.a.*.a.#.a` of a hundred words would cost tens of milliseconds for a key.
Patterns with many words behind a `#` are therefore not in the trie but in `WidePatterns`, which moves all of them with
a few operations on large integers, a bit for each word of a pattern.

A message with many routing keys (CC, BCC) may be matched in slices: `RoutedMessage` keeps the bindings found so far.

**headers**: a binding matches if the message's headers match its arguments. `x-match` says how many must match: `all`
(the default) or `any`. Other arguments that start with `x-` are not compared, unless `x-match` is `all-with-x` or
`any-with-x`. An argument without a value requires only that the header exists. A binding with nothing to compare
matches every message with `all`, and none with `any`.

**x-consistent-hash**: each message follows exactly one binding, and the same key always the same one. The binding key
is a weight, an integer above zero. The hashed value is the routing key, the header named by the exchange's argument
`hash-header`, or the property named by `hash-property`. Every binding draws a number from a hash of that value and of
its own destination; the smallest number, divided by weight, wins (weighted rendezvous hashing). A draw depends on
nothing else, so an added binding takes only the keys it wins, a removed binding gives up only its own keys, and two
nodes with the same bindings agree, in any order of creation. Two bindings to one destination count as one with the
larger weight. The hash is CRC-32 and a fixed mixer, the same in every process.

**x-delayed-message**: routes like its inner type, `x-delayed-type`.

Not here: the default exchange, which has no bindings (`broker.routing.topology`), equality of values
(`broker.routing.comparison`), the equivalence of a redeclared exchange (`broker.sessions.declares`), keeping delayed
messages (`broker.delays`).
"""

import math
from typing import Final, final
from zlib import crc32

from mypy_extensions import i64

from warren.broker.model.erlang_terms import term, type_name
from warren.broker.model.ports import QueuePort
from warren.broker.routing.comparison import matching, plain
from warren.broker.routing.exchanges import Binding, Matcher, RoutedMessage
from warren.errors import COMMAND_INVALID, PRECONDITION_FAILED, ChannelFault, ConnectionFault
from warren.wire.field_tables import Table


@final
class DirectMatcher(Matcher):
    """A dict of bindings by routing key."""

    def __init__(self) -> None:
        super().__init__(cacheable=True)
        self.by_key: dict[str, dict[Binding, Binding]] = {}

    def add(self, binding: Binding) -> None:
        bindings = self.by_key.get(binding.routing_key)
        if bindings is None:
            self.by_key[binding.routing_key] = {binding: binding}
        else:
            bindings[binding] = binding

    def remove(self, binding: Binding) -> None:
        bindings = self.by_key[binding.routing_key]
        del bindings[binding]
        if not bindings:
            del self.by_key[binding.routing_key]

    def match(self, subject: RoutedMessage, found: list[Binding]) -> None:
        for routing_key in subject.routing_keys:
            bindings = self.by_key.get(routing_key)
            if bindings is not None:
                found.extend(bindings)


@final
class FanoutMatcher(Matcher):
    def __init__(self) -> None:
        super().__init__(cacheable=True)
        self.bindings: dict[Binding, Binding] = {}

    def add(self, binding: Binding) -> None:
        self.bindings[binding] = binding

    def remove(self, binding: Binding) -> None:
        del self.bindings[binding]

    def match(self, subject: RoutedMessage, found: list[Binding]) -> None:
        found.extend(self.bindings)


@final
class TopicNode:
    """A node of the trie: the pattern words on the path to it."""

    def __init__(self, is_hash: bool) -> None:
        # whether the last word on the path is `#`
        self.is_hash: bool = is_hash
        # created with the first child: most nodes of a long pattern have one child or none
        self.words: dict[str, TopicNode] | None = None
        self.star: TopicNode | None = None
        self.hash: TopicNode | None = None
        self.bindings: dict[Binding, Binding] | None = None
        # the last step of a walk that entered this node
        self.entered_at: i64 = 0

    def child(self, word: str) -> "TopicNode | None":
        if word == "*":
            return self.star
        if word == "#":
            return self.hash
        return None if self.words is None else self.words.get(word)

    def grow(self, word: str) -> "TopicNode":
        """The child for a pattern word, created if there is none."""
        child = self.child(word)
        if child is None:
            child = TopicNode(is_hash=word == "#")
            if word == "*":
                self.star = child
            elif word == "#":
                self.hash = child
            elif self.words is None:
                self.words = {word: child}
            else:
                self.words[word] = child
        return child

    def cut(self, word: str) -> None:
        if word == "*":
            self.star = None
        elif word == "#":
            self.hash = None
        elif self.words is not None:
            del self.words[word]
            self.words = self.words or None

    def is_bare(self) -> bool:
        return not self.words and self.star is None and self.hash is None and self.bindings is None


@final
class TopicMatcher(Matcher):
    """A trie of patterns, and those that are too wide for it."""

    def __init__(self) -> None:
        super().__init__(cacheable=True)
        self.root: TopicNode = TopicNode(is_hash=False)
        self.wide: WidePatterns = WidePatterns()
        self._step: i64 = 0

    def add(self, binding: Binding) -> None:
        words = pattern_of(binding.routing_key)
        if is_wide(words):
            self.wide.add(words, binding)
            return
        node = self.root
        for word in words:
            node = node.grow(word)
        if node.bindings is None:
            node.bindings = {}
        node.bindings[binding] = binding

    def remove(self, binding: Binding) -> None:
        words = pattern_of(binding.routing_key)
        if is_wide(words):
            self.wide.remove(words, binding)
            return
        path = [self.root]
        for word in words:
            child = path[-1].child(word)
            assert child is not None, "the binding was added"
            path.append(child)
        bindings = path[-1].bindings
        assert bindings is not None, "the binding was added"
        del bindings[binding]
        if not bindings:
            path[-1].bindings = None
            self._prune(path, words)

    def _prune(self, path: list[TopicNode], words: list[str]) -> None:
        depth = len(words)
        while depth > 0 and path[depth].is_bare():
            depth -= 1
            path[depth].cut(words[depth])

    def match(self, subject: RoutedMessage, found: list[Binding]) -> None:
        if len(subject.routing_keys) == 1:
            self._match_key(subject.routing_keys[0], subject, found)
            return
        progress = subject.progress_of(self)
        while progress.key_count < len(subject.routing_keys):
            if subject.steps >= subject.steps_max:
                subject.unfinished = True
                return
            matching_key: list[Binding] = []
            self._match_key(subject.routing_keys[progress.key_count], subject, matching_key)
            subject.steps += len(matching_key)
            progress.key_count += 1
            for binding in matching_key:
                progress.found[binding] = None
        found.extend(progress.found)

    def _match_key(self, routing_key: str, subject: RoutedMessage, found: list[Binding]) -> None:
        words = words_of(routing_key)
        for node in self._walk(words, subject):
            if node.bindings is not None:
                found.extend(node.bindings)
        if self.wide.patterns:
            subject.steps += self.wide.match(words, found)

    def _walk(self, words: list[str], subject: RoutedMessage) -> list[TopicNode]:
        """The nodes whose patterns match all the words."""
        front: list[TopicNode] = []
        self._step += 1
        self._enter(self.root, front)
        steps: i64 = 0
        for word in words:
            steps += len(front)
            behind = front
            front = []
            self._step += 1
            for node in behind:
                self._advance(node, word, front)
        subject.steps += steps
        return front

    def _advance(self, node: TopicNode, word: str, front: list[TopicNode]) -> None:
        if node.words is not None:
            following = node.words.get(word)
            if following is not None:
                self._enter(following, front)
        if node.star is not None:
            self._enter(node.star, front)
        if node.is_hash:
            self._enter(node, front)

    def _enter(self, node: TopicNode, front: list[TopicNode]) -> None:
        entering: TopicNode | None = node
        while entering is not None and entering.entered_at != self._step:
            entering.entered_at = self._step
            front.append(entering)
            entering = entering.hash


def words_of(key: str) -> list[str]:
    return key.split(".") if key else []


def pattern_of(key: str) -> list[str]:
    """The words of a binding key, with the `#` of each run of wildcards last and single."""
    words: list[str] = []
    any_number = False
    for word in words_of(key):
        if word == "#":
            any_number = True
            continue
        if any_number and word != "*":
            words.append("#")
            any_number = False
        words.append(word)
    if any_number:
        words.append("#")
    return words


WORDS_BEHIND_HASH_MAX: Final = 3


def is_wide(words: list[str]) -> bool:
    """Whether more words follow a `#` than the trie can follow at every word of a key."""
    return "#" in words and len(words) - 1 - words.index("#") > WORDS_BEHIND_HASH_MAX


@final
class WidePattern:
    """A pattern with its bindings. Bit `first + n` of a state says that its first n words match."""

    def __init__(self, words: list[str], first: int) -> None:
        self.words: list[str] = words
        self.first: int = first
        self.bindings: dict[Binding, Binding] = {}


@final
class WidePatterns:
    """Patterns matched side by side, a bit for each word of each pattern.

    A state is one integer. For each word of a key, the bits whose next pattern word matches it move on by one place,
    and the bits behind a `#` stay; then the bits before a `#` are copied behind it, as it also matches no word. The
    cost of a key is the number of bits, and for each of its words a sixty-fourth of that.

    Invariant: bits of removed patterns are never in a state, because they do not start. They are cleared away when they
    are more than half.
    """

    def __init__(self) -> None:
        self.patterns: dict[str, WidePattern] = {}
        self._clear()

    def _clear(self) -> None:
        self._bits: int = 0
        self._unused_bits: int = 0
        # bits of a state: at the start of a pattern, before a `*`, before and behind a `#`
        self._starts: int = 0
        self._before_star: int = 0
        self._before_hash: int = 0
        self._behind_hash: int = 0
        # the bits before each other word
        self._before_word: dict[str, list[int]] = {}

    def add(self, words: list[str], binding: Binding) -> None:
        key = ".".join(words)
        pattern = self.patterns.get(key)
        if pattern is None:
            pattern = WidePattern(words, self._bits)
            self.patterns[key] = pattern
            self._place(pattern)
        pattern.bindings[binding] = binding

    def remove(self, words: list[str], binding: Binding) -> None:
        pattern = self.patterns[".".join(words)]
        del pattern.bindings[binding]
        if pattern.bindings:
            return
        del self.patterns[".".join(words)]
        self._starts &= ~(1 << pattern.first)
        self._unused_bits += len(words) + 1
        if 2 * self._unused_bits > self._bits:
            self._clear()
            for kept in self.patterns.values():
                kept.first = self._bits
                self._place(kept)

    def _place(self, pattern: WidePattern) -> None:
        stars = 0
        hashes = 0
        for number, word in enumerate(pattern.words):
            if word == "*":
                stars |= 1 << number
            elif word == "#":
                hashes |= 1 << number
            else:
                self._before_word.setdefault(word, []).append(pattern.first + number)
        self._starts |= 1 << pattern.first
        self._before_star |= stars << pattern.first
        self._before_hash |= hashes << pattern.first
        self._behind_hash |= hashes << (pattern.first + 1)
        self._bits += len(pattern.words) + 1

    def match(self, words: list[str], found: list[Binding]) -> i64:
        """Append the bindings whose patterns match all the words; the cost, in steps of the trie's walk."""
        state = self._starts | (self._starts & self._before_hash) << 1
        movers: dict[str, int] = {}
        for word in words:
            moving = movers.get(word, -1)
            if moving < 0:
                moving = self._before_star | self._mask(self._before_word.get(word))
                movers[word] = moving
            state = (state & moving) << 1 | (state & self._behind_hash)
            state |= (state & self._before_hash) << 1
        if state:
            octets = state.to_bytes(self._bits // 8 + 1, "little")
            for pattern in self.patterns.values():
                last = pattern.first + len(pattern.words)
                if octets[last >> 3] >> (last & 7) & 1:
                    found.extend(pattern.bindings)
        return (len(words) + 8) * (self._bits >> 6)

    def _mask(self, bits: list[int] | None) -> int:
        if bits is None:
            return 0
        octets = bytearray(self._bits // 8 + 1)
        for bit in bits:
            octets[bit >> 3] |= 1 << (bit & 7)
        return int.from_bytes(octets, "little")


MATCH_KINDS: Final = ("all", "any", "all-with-x", "any-with-x")


@final
class HeaderPattern:
    """The headers that one binding requires."""

    def __init__(self, arguments: Table) -> None:
        kind = arguments.get("x-match", "all")
        with_x = kind == "all-with-x" or kind == "any-with-x"
        self.any: bool = kind == "any" or kind == "any-with-x"
        self.names: list[str] = []
        self.values: list[object] = []
        for name, value in arguments.items():
            if name != "x-match" and (with_x or not name.startswith("x-")):
                self.names.append(name)
                self.values.append(value)

    def accepts(self, headers: Table, subject: RoutedMessage) -> bool:
        """Compare until the result is known; a step for each header, since a binding may have thousands."""
        for at in range(len(self.names)):
            subject.steps += 1
            name = self.names[at]
            wanted = self.values[at]
            matches = name in headers and (wanted is None or matching(wanted, headers[name]))
            if matches == self.any:
                return self.any
        return not self.any


@final
class HeadersMatcher(Matcher):
    """Bindings and their header patterns, tried one by one."""

    def __init__(self) -> None:
        super().__init__(cacheable=False)
        self.patterns: dict[Binding, HeaderPattern] = {}

    def check(self, routing_key: str, arguments: Table) -> None:
        if "x-match" not in arguments:
            return
        kind = arguments["x-match"]
        if not isinstance(kind, str):
            raise ChannelFault(
                PRECONDITION_FAILED,
                f"Invalid x-match field type {type_name(kind)} (value {term(kind)}); expected longstr",
            )
        if kind not in MATCH_KINDS:
            raise ChannelFault(
                PRECONDITION_FAILED,
                f"Invalid x-match field value {term(kind)}; expected all, any, all-with-x, or any-with-x",
            )

    def add(self, binding: Binding) -> None:
        self.patterns[binding] = HeaderPattern(binding.arguments)

    def remove(self, binding: Binding) -> None:
        del self.patterns[binding]

    def match(self, subject: RoutedMessage, found: list[Binding]) -> None:
        headers = subject.headers()
        subject.steps += len(self.patterns)
        for binding, pattern in self.patterns.items():
            if pattern.accepts(headers, subject):
                found.append(binding)


HASH_PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")


@final
class WeightedBinding:
    """A binding with its weight and hash seed."""

    def __init__(self, binding: Binding) -> None:
        destination = binding.destination
        kind = "queue" if isinstance(destination, QueuePort) else "exchange"
        self.binding: Binding = binding
        self.seed: i64 = crc32(f"{kind} {destination.name}".encode("utf-8", "surrogateescape"))
        self.weight: float = float(int(binding.routing_key))

    def draw(self, key_hash: i64) -> float:
        """An exponentially distributed number with the weight as its rate, so that bindings win in proportion to it."""
        return -math.log((float(mix_hash(key_hash ^ self.seed)) + 0.5) / 4294967296.0) / self.weight


@final
class ConsistentHashMatcher(Matcher):
    """All bindings with their weights; the smallest draw wins."""

    def __init__(self, arguments: Table) -> None:
        self.header: str = _text_argument(arguments, "hash-header")
        self.property: str = _text_argument(arguments, "hash-property")
        super().__init__(cacheable=not self.header and not self.property)
        if self.header and self.property:
            raise ChannelFault(PRECONDITION_FAILED, "hash-header and hash-property are mutually exclusive")
        if self.property and self.property not in HASH_PROPERTIES:
            raise ChannelFault(PRECONDITION_FAILED, f"Unsupported property: {self.property}")
        self.weighted: dict[Binding, WeightedBinding] = {}

    def check(self, routing_key: str, arguments: Table) -> None:
        digits = routing_key[1:] if routing_key[:1] in ("+", "-") else routing_key
        if not (digits.isascii() and digits.isdigit()):
            raise ChannelFault(PRECONDITION_FAILED, f"The binding key must be an integer: {term(routing_key)}")
        if int(routing_key) < 1:
            raise ChannelFault(PRECONDITION_FAILED, "The binding key must be greater than 0")

    def add(self, binding: Binding) -> None:
        self.weighted[binding] = WeightedBinding(binding)

    def remove(self, binding: Binding) -> None:
        del self.weighted[binding]

    def match(self, subject: RoutedMessage, found: list[Binding]) -> None:
        key_hash: i64 = crc32(self._hashed_octets(subject))
        subject.steps += len(self.weighted)
        winner: WeightedBinding | None = None
        smallest = math.inf
        for candidate in self.weighted.values():
            drawn = candidate.draw(key_hash)
            if drawn < smallest:
                smallest = drawn
                winner = candidate
        if winner is not None:
            found.append(winner.binding)

    def _hashed_octets(self, subject: RoutedMessage) -> bytes:
        """The octets to hash; empty for a message without the header or property."""
        value: object = None
        if self.header:
            value = plain(subject.headers().get(self.header))
        elif self.property:
            value = plain(self._property_of(subject))
        else:
            value = plain(subject.routing_keys[0])
        if value is None:
            return b""
        return value if isinstance(value, bytes) else str(value).encode()

    def _property_of(self, subject: RoutedMessage) -> object:
        properties = subject.properties()
        if properties is None:
            return None
        if self.property == "message_id":
            return properties.message_id
        if self.property == "correlation_id":
            return properties.correlation_id
        return properties.timestamp


def mix_hash(value: i64) -> i64:
    """A bijective mix of 32 bits; the factors are below 2**31, so every product fits in 63 bits."""
    value = ((value ^ (value >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    value = ((value ^ (value >> 15)) * 0x31848BAB) & 0xFFFFFFFF
    return value ^ (value >> 16)


def _text_argument(arguments: Table, name: str) -> str:
    value = arguments.get(name, "")
    if not isinstance(value, str):
        raise ChannelFault(PRECONDITION_FAILED, f"{name} must be a string")
    return value


DELAYED_TYPE: Final = "x-delayed-message"
EXCHANGE_TYPES: Final = ("direct", "fanout", "topic", "headers", "x-consistent-hash", DELAYED_TYPE)


def validate_exchange_type(name: str) -> None:
    if not name:
        raise ConnectionFault(COMMAND_INVALID, "invalid exchange type ''")
    if name not in EXCHANGE_TYPES:
        raise ConnectionFault(COMMAND_INVALID, f"unknown exchange type '{name}'")


def matcher_for(type: str, arguments: Table) -> Matcher:
    """The matcher of an exchange; a fault if its arguments do not suit its type."""
    if type == DELAYED_TYPE:
        return matcher_for(inner_type(arguments), arguments)
    if type == "direct":
        return DirectMatcher()
    if type == "fanout":
        return FanoutMatcher()
    if type == "topic":
        return TopicMatcher()
    if type == "headers":
        return HeadersMatcher()
    validate_exchange_type(type)
    return ConsistentHashMatcher(arguments)


def inner_type(arguments: Table) -> str:
    """The type by which a delaying exchange routes due messages; it cannot be a delaying type itself."""
    name = arguments.get("x-delayed-type")
    if not isinstance(name, str) or name == DELAYED_TYPE:
        raise ChannelFault(PRECONDITION_FAILED, "Invalid argument, 'x-delayed-type' must be an existing exchange type")
    validate_exchange_type(name)
    return name


def alternate_of(vhost: str, name: str, arguments: Table) -> str:
    """The alternate exchange in an exchange's arguments; empty if there is none."""
    if "alternate-exchange" not in arguments:
        return ""
    alternate = arguments["alternate-exchange"]
    if not isinstance(alternate, str):
        raise ChannelFault(
            PRECONDITION_FAILED,
            f"invalid type '{type_name(alternate)}' for arg 'alternate-exchange'"
            f" in exchange '{name}' in vhost '{vhost}'",
        )
    return alternate
