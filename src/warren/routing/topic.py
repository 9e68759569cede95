"""The topic exchange: binding keys are patterns of words, kept in a trie.

A key is split at its dots; the empty key has no words, and `a.` has two, the second empty. In a pattern `*` stands
for exactly one word and `#` for any number, none included. In a routing key both are ordinary words.

A routing key is walked through the trie one word at a time with all nodes it could be at. A node enters that front
once per word, however many ways lead to it, so the cost is at most words × nodes and several `#` in one pattern are
harmless. A `#` node is entered together with its parent (it matches no word) and stays in the front (it swallows one
more).

Invariants: every node but the root leads to a binding, so removing a binding prunes what led only to it.

Not here: what a binding leads to (`topology`).
"""

from typing import final

from mypy_extensions import i64

from warren.routing.exchange import Binding, Matcher
from warren.routing.route import Subject


@final
class TopicNode:
    """One position in the trie: the pattern words on the way to it."""

    def __init__(self, swallows: bool) -> None:
        # whether the last word on the way here is `#`
        self.swallows: bool = swallows
        # made with the first child: most nodes of a long pattern have one child or none
        self.words: dict[str, TopicNode] | None = None
        self.star: TopicNode | None = None
        self.hash: TopicNode | None = None
        self.bindings: dict[Binding, Binding] | None = None
        # the step of the walk that entered this node last
        self.entered_at: i64 = 0

    def child(self, word: str) -> "TopicNode | None":
        if word == "*":
            return self.star
        if word == "#":
            return self.hash
        return None if self.words is None else self.words.get(word)

    def grow(self, word: str) -> "TopicNode":
        """The child for a pattern's word, made if there is none."""
        child = self.child(word)
        if child is None:
            child = TopicNode(swallows=word == "#")
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
    """A trie of patterns."""

    def __init__(self) -> None:
        super().__init__(cacheable=True)
        self.root: TopicNode = TopicNode(swallows=False)
        self._step: i64 = 0

    def add(self, binding: Binding) -> None:
        node = self.root
        for word in words_of(binding.routing_key):
            node = node.grow(word)
        if node.bindings is None:
            node.bindings = {}
        node.bindings[binding] = binding

    def remove(self, binding: Binding) -> None:
        words = words_of(binding.routing_key)
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

    def match(self, subject: Subject, found: list[Binding]) -> None:
        for routing_key in subject.routing_keys:
            for node in self._walk(words_of(routing_key)):
                if node.bindings is not None:
                    found.extend(node.bindings)

    def _walk(self, words: list[str]) -> list[TopicNode]:
        """The nodes whose patterns match all the words."""
        front: list[TopicNode] = []
        self._step += 1
        self._enter(self.root, front)
        for word in words:
            behind = front
            front = []
            self._step += 1
            for node in behind:
                self._advance(node, word, front)
        return front

    def _advance(self, node: TopicNode, word: str, front: list[TopicNode]) -> None:
        if node.words is not None:
            following = node.words.get(word)
            if following is not None:
                self._enter(following, front)
        if node.star is not None:
            self._enter(node.star, front)
        if node.swallows:
            self._enter(node, front)

    def _enter(self, node: TopicNode, front: list[TopicNode]) -> None:
        entering: TopicNode | None = node
        while entering is not None and entering.entered_at != self._step:
            entering.entered_at = self._step
            front.append(entering)
            entering = entering.hash


def words_of(key: str) -> list[str]:
    return key.split(".") if key else []
