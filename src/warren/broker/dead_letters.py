"""Dead letters: messages that go from the queue they died in to its dead-letter exchange.

The headers have the history: `x-death` has a table for each queue and reason, newest first, with a count;
`x-first-death-*` name the first death. The expiration is removed, or the message would expire again at once. A message
that would return to a queue it died in before, without a consumer's reject in between, is dropped: the cycle would
never end.

A dead letter is removed from its queue when it has arrived: at once, or when the home nodes of its new queues have
confirmed it. A node that may be behind keeps dead letters that it cannot route until it is up to date, within a limit:
the queue may exist already.

Not here: when a message dies (`broker.queues.queue`).
"""

from typing import Final, final

from warren.broker.internal_publishes import InternalPublish
from warren.broker.model.message import NO_EXPIRATION, Envelope, Message
from warren.broker.model.ports import DeadLetter, QueuePort
from warren.broker.model.turn import Turn
from warren.broker.routing.exchanges import Recipients
from warren.broker.sessions import firehose
from warren.broker.vhost import DeadLetterer, Vhost
from warren.wire.field_tables import Long, Table, Timestamp
from warren.wire.properties import edit_headers

REJECTED: Final = "rejected"
COUNT_MAX: Final = 2**63 - 1

SLICE_LETTERS_MAX: Final = 256
LETTER_BYTES: Final = 256
"""The memory of a waiting dead letter besides its content."""

LETTER_COST_BYTES: Final = 1024
"""The cost of publishing one, in bytes of headers that could be written in that time."""

STEP_COST_BYTES: Final = 40
"""The same for one step of routing."""

NOT_SENT: Final = -1

KEPT_BYTES_MAX: Final = 64 * 1024 * 1024
"""For letters without a route: one queue must not fill the memory of a node that is cut off."""


@final
class DeadLetterQueue(DeadLetterer):
    """The dead letters of a node, published in slices.

    Dead letters caused by a slice are published before older ones, so that queues that dead-letter into one another in
    a cycle keep few waiting. The dead letters of one queue keep their order.
    """

    def __init__(self, turn: Turn, node_name: str) -> None:
        self._turn: Turn = turn
        self._node_name: str = node_name
        # the last batch is published first; each batch is reversed, so that its next letter is at the end
        self._batches: list[list[DeadLetter]] = []
        # letters without a route while the node may be behind
        self._kept: list[DeadLetter] = []
        self._kept_bytes: int = 0

    def waiting(self) -> bool:
        if self._kept and not self._turn.may_be_behind:
            return True
        return len(self._batches) > 0 or len(self._turn.dead_letters) > 0

    def publish_slice(self, vhosts: dict[str, Vhost], budget_bytes: int) -> int:
        """Publish one slice, or as much of it as the budget allows; the rest of the budget."""
        self._gather(0)
        if not self._turn.may_be_behind:
            self._retry_kept()
        if not self._batches:
            return budget_bytes
        batch = self._batches[-1]
        count = 0
        while batch and count < SLICE_LETTERS_MAX and budget_bytes > 0:
            letter = batch.pop()
            count += 1
            spent_bytes = publish_dead_letter(vhosts[letter.queue.vhost], letter, self._turn, self._node_name)
            budget_bytes -= max(spent_bytes, 0) + LETTER_COST_BYTES
            if spent_bytes != NOT_SENT or not self._keep(letter):
                self._turn.held_bytes -= _held_bytes(letter)
        if not batch:
            self._batches.pop()
        self._gather(len(self._batches))
        return budget_bytes

    def send_dead_letters_of(self, queue: QueuePort, vhost: Vhost) -> None:
        """Publish all dead letters of a queue before it is deleted, so that a crash cannot lose both."""
        self._gather(0)
        self._retry_kept()
        its: list[DeadLetter] = []
        others: list[list[DeadLetter]] = []
        for batch in self._batches:
            its += [letter for letter in batch if letter.queue is queue]
            rest = [letter for letter in batch if letter.queue is not queue]
            if rest:
                others.append(rest)
        self._batches = others
        for letter in reversed(its):
            self._turn.held_bytes -= _held_bytes(letter)
            if publish_dead_letter(vhost, letter, self._turn, self._node_name) == NOT_SENT:
                letter.queue.dead_letter_published(letter.entry)

    def drop_letters_of_vhost(self, vhost: str) -> None:
        """The virtual host is removed, and the targets of its dead letters with it."""
        self._gather(0)
        self._retry_kept()
        others: list[list[DeadLetter]] = []
        for batch in self._batches:
            for letter in batch:
                if letter.queue.vhost == vhost:
                    self._turn.held_bytes -= _held_bytes(letter)
            rest = [letter for letter in batch if letter.queue.vhost != vhost]
            if rest:
                others.append(rest)
        self._batches = others

    def _keep(self, letter: DeadLetter) -> bool:
        """Keep a letter without a route; False, with the letter dropped, if there is no room."""
        if self._kept_bytes > KEPT_BYTES_MAX:
            letter.queue.dead_letter_published(letter.entry)
            return False
        self._kept_bytes += _held_bytes(letter)
        self._kept.append(letter)
        return True

    def _retry_kept(self) -> None:
        """Publish the kept letters first, since they are older than all others."""
        if self._kept:
            self._kept.reverse()
            self._batches.append(self._kept)
            self._kept = []
            self._kept_bytes = 0

    def _gather(self, place: int) -> None:
        letters = self._turn.dead_letters
        if letters:
            self._turn.dead_letters = []
            for letter in letters:
                self._turn.held_bytes += _held_bytes(letter)
            letters.reverse()
            self._batches.insert(place, letters)


def _held_bytes(letter: DeadLetter) -> int:
    return len(letter.entry.message.content) + LETTER_BYTES


@final
class DeadLetterPublish(InternalPublish):
    """A dead letter that is being published."""

    def __init__(self, letter: DeadLetter, message: Message, turn: Turn) -> None:
        super().__init__(message, turn, counted=False)
        self._letter: DeadLetter = letter

    def arrived(self) -> None:
        # only when it has arrived: a crash in between must not lose it
        self._letter.queue.dead_letter_published(self._letter.entry)


def publish_dead_letter(vhost: Vhost, letter: DeadLetter, turn: Turn, node_name: str) -> int:
    """Publish a dead letter, or drop it if it has no route; its cost: the size of its headers, and that of its route.

    `NOT_SENT` if this node finds no route but may be behind.
    """
    exchange = vhost.topology.exchanges.get(letter.exchange)
    if exchange is None:
        if turn.may_be_behind:
            return NOT_SENT
        if vhost.tracing:
            firehose.trace_dead_lettered(vhost.topology, node_name, letter, [])
        letter.queue.dead_letter_published(letter.entry)
        return 0
    deaths = deaths_of(letter, int(vhost.now_ms()) // 1000)
    message = dead_message(letter, deaths)
    keys = [message.envelope.routing_key, *message.envelope.copy_keys]
    steps_before = vhost.topology.steps
    route = vhost.topology.route_keys(exchange, keys, message)
    routing_bytes = int(vhost.topology.steps - steps_before) * STEP_COST_BYTES
    if turn.may_be_behind and not route.queues and not route.delayed:
        return NOT_SENT
    if vhost.tracing:
        taking = [queue for queue in route.queues if not _would_cycle(queue, letter, deaths)]
        firehose.trace_dead_lettered(vhost.topology, node_name, letter, taking)
    for delaying in route.delayed:
        vhost.delay(delaying, message)
    publish = DeadLetterPublish(letter, message, turn)
    recipients = Recipients(route.queues, route.copies)
    for queue in recipients.row:
        if _would_cycle(queue, letter, deaths):
            vhost.note_cycle(queue, letter)
        elif publish.publish(queue):
            recipients.taken_by(queue)
    publish.end()
    return len(message.content) - int(message.body_bytes) + routing_bytes


def dead_message(letter: DeadLetter, deaths: list[Table]) -> Message:
    """The message as it is published to the dead-letter exchange."""
    old = letter.entry.message
    headers: Table = {"x-death": list(deaths)}
    if "x-death" not in old.headers():
        headers["x-first-death-exchange"] = old.envelope.exchange
        headers["x-first-death-queue"] = letter.queue.name
        headers["x-first-death-reason"] = letter.reason
    removed = [] if letter.routing_key is None else ["CC"]
    payload = edit_headers(old.header_payload(), removed, headers, drop_expiration=True)
    message = old.with_header_payload(payload)
    message.expiration_ms = NO_EXPIRATION
    if letter.routing_key is None:
        message.envelope = Envelope(letter.exchange, old.envelope.routing_key, old.envelope.copy_keys)
    else:
        message.envelope = Envelope(letter.exchange, letter.routing_key)
    return message


def deaths_of(letter: DeadLetter, now_s: int) -> list[Table]:
    """The `x-death` list with this death first."""
    message = letter.entry.message
    earlier = _earlier_deaths(message)
    for death in earlier:
        if death.get("queue") == letter.queue.name and death.get("reason") == letter.reason:
            count = death.get("count")
            death["count"] = Long(min(count.value if isinstance(count, Long) else 0, COUNT_MAX - 1) + 1)
            return [death] + [other for other in earlier if other is not death]
    keys: list[object] = [message.envelope.routing_key]
    copies = message.headers().get("CC")
    if isinstance(copies, list):
        keys.extend([key for key in copies if isinstance(key, str)])
    death = {
        "count": Long(1),
        "reason": letter.reason,
        "queue": letter.queue.name,
        "time": Timestamp(now_s),
        "exchange": message.envelope.exchange,
        "routing-keys": keys,
    }
    expiration = message.properties().expiration
    if expiration is not None:
        death["original-expiration"] = expiration
    return [death, *earlier]


def _would_cycle(queue: QueuePort, letter: DeadLetter, deaths: list[Table]) -> bool:
    return letter.reason != REJECTED and is_cycle(queue, deaths)


def is_cycle(queue: QueuePort, deaths: list[Table]) -> bool:
    """Whether the message died in this queue before and no consumer rejected it since."""
    for death in deaths:
        if death.get("reason") == REJECTED:
            return False
        if death.get("queue") == queue.name:
            return True
    return False


def _earlier_deaths(message: Message) -> list[Table]:
    """The tables of `x-death`: one for each queue and reason, with counts as 64-bit integers, which clients expect.

    Old brokers wrote several entries without counts for one queue and reason. They are counted and become one.
    """
    found = message.headers().get("x-death")
    earlier: dict[tuple[str, str], Table] = {}
    seen: dict[tuple[str, str], int] = {}
    for death in found if isinstance(found, list) else []:
        if isinstance(death, dict):
            key = (str(death.get("queue")), str(death.get("reason")))
            earlier.setdefault(key, death)
            seen[key] = seen.get(key, 0) + 1
    for key, death in earlier.items():
        count = death.get("count")
        counted = isinstance(count, int) and not isinstance(count, bool)
        death["count"] = Long(count if counted and isinstance(count, int) else seen[key])
    return list(earlier.values())
