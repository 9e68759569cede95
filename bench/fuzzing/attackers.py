"""One hostile client: what it sends in each turn, and how its connection ends.

It does the handshake (or mutates even that), opens a few channels, and then sends mutated conversations, cut into reads
at random, until the node closes the connection or everything is sent.

Not here: the mutations (`mutations`), the permitted replies (`replies`).
"""

import random

from bench.fuzzing.conversations import Conversation, handshake
from bench.fuzzing.mutations import HARD, SOFT, framed
from bench.fuzzing.replies import Replies
from warren.wire.methods import ChannelCloseOk, ChannelOpen, encode_method

CHANNELS_MAX = 4
FRAMES_A_TURN = 8
SPOILT_HANDSHAKES = 0.04
HARD_SHARE = 0.06
SPOILT_SHARES = (0.3, 0.8, 0.95)
HANDSHAKES = [handshake(heartbeat_s, frame_max) for heartbeat_s in (0, 1, 60) for frame_max in (131072, 4096)]
OPENED = [encode_method(channel, ChannelOpen()) for channel in range(1, CHANNELS_MAX + 1)]


class Attacker:
    """One hostile connection."""

    def __init__(self, connection_id: int, rng: random.Random, corpus: list[Conversation]) -> None:
        self.connection_id = connection_id
        self.replies = Replies()
        self.notes = 0
        self.sent: list[bytes] = []
        self.hung_up = False
        self.deaf = False
        self.frames_left = rng.choice((4, 16, 64, 256))
        self._rng = rng
        # few mutations let it get far in a conversation
        self._spoilt_share = rng.choice(SPOILT_SHARES)
        self._corpus = corpus
        self._rest: list[tuple[int, int, bytes]] = []
        self._opening = self._first_words()

    def reads(self) -> tuple[list[bytes], int]:
        """Its bytes of this turn, cut into reads, and the number of mutated frames in them."""
        rng = self._rng
        parts = self._opening
        self._opening = []
        if self.replies.closed_channels:
            parts += self._reopened()
        mutated = 0
        for _ in range(FRAMES_A_TURN):
            kind, channel, payload = self._next_frame()
            chance = rng.random()
            if chance < HARD_SHARE:
                parts.append(rng.choice(HARD)(rng, kind, channel, payload))
                mutated += 1
            elif chance < self._spoilt_share:
                parts.append(rng.choice(SOFT)(rng, kind, channel, payload))
                mutated += 1
            else:
                parts.append(framed(kind, channel, payload))
        if chance < 0.02:
            rng.shuffle(parts)
        self.frames_left -= FRAMES_A_TURN
        return self._cut(b"".join(parts)), mutated

    def _first_words(self) -> list[bytes]:
        rng = self._rng
        words = list(rng.choice(HANDSHAKES))
        if rng.random() < SPOILT_HANDSHAKES:
            at = rng.randrange(len(words))
            word = words[at]
            words[at] = rng.choice(HARD)(rng, 1, 0, word[7:-1]) if at else rng.randbytes(rng.randrange(12))
        return words + (OPENED if rng.random() < 0.9 else OPENED[: rng.randrange(CHANNELS_MAX)])

    def _reopened(self) -> list[bytes]:
        """Open a closed channel again, nearly always, so that the conversation goes on."""
        closed = self.replies.closed_channels
        self.replies.closed_channels = []
        if self._rng.random() < 0.1:
            return []
        return [encode_method(number, method) for number in closed for method in (ChannelCloseOk(), ChannelOpen())]

    def _next_frame(self) -> tuple[int, int, bytes]:
        """Frames of one or two conversations at a time, so that contents interleave."""
        rng = self._rng
        if not self._rest:
            channel = rng.randrange(1, CHANNELS_MAX + 1)
            self._rest = [(kind, channel, payload) for kind, payload in rng.choice(self._corpus)]
            if rng.random() < 0.03:
                channel = rng.randrange(1, CHANNELS_MAX + 1)
                self._rest += [(kind, channel, payload) for kind, payload in rng.choice(self._corpus)]
                rng.shuffle(self._rest)
            self._rest.reverse()
        return self._rest.pop()

    def _cut(self, stream: bytes) -> list[bytes]:
        rng = self._rng
        pieces = 1 if rng.random() < 0.7 else rng.randrange(2, 8)
        cuts = sorted(rng.randrange(len(stream) + 1) for _ in range(pieces - 1))
        reads = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
        self.sent += reads
        return reads
