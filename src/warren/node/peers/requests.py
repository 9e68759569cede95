"""Requests between nodes on connections of their own: admin requests, and the join exchange.

::

    ask(node, question) ──► an idle conversation, or a handshake for another one ──► question ──► answer
                                                                                 ◄── kept for the next one

A question and its answer are pieces: four octets of length, and as many of content. A conversation carries one question
at a time; several at once have several conversations. So a long list delays neither messages nor other questions. Only
members with the cookie pass the handshake.

Bounds: the bytes of a piece, the conversations of one node with another, the time of an answer. The answering side
closes an idle conversation; a question that meets the close is asked again in another one.

A node that wants to join sends one piece and gets one, both bounded in size and time.

Not here: the requests (`admin.peers`), the join messages (`node.cluster.cluster_file`), the hello
(`broker.cluster.hello`).
"""

import asyncio
from collections.abc import Awaitable, Callable

from warren.broker.cluster.hello import PeerIdentity
from warren.node.peers.handshake import DialFailed

PIECE_BYTES_MAX = 32 * 1024 * 1024
ANSWER_PATIENCE_S = 2.0
IDLE_S = 60.0
CONVERSATIONS_MAX = 8
"""The conversations of one node with another, for each asking side."""

_LENGTH_BYTES = 4

AnswerQuestion = Callable[[bytes], Awaitable[bytes]]


class PeerConversation(asyncio.Protocol):
    """One side of a conversation: sends and receives pieces."""

    def __init__(self, node: str, taken: Callable[["PeerConversation", bytes], None]) -> None:
        """`taken` is called with every piece."""
        self.node = node
        self.closed = False
        self.on_close: Callable[[PeerConversation], None] | None = None
        self._taken = taken
        self._buffer = bytearray()

    def take_over(self, transport: asyncio.Transport, rest: bytes) -> None:
        self._transport = transport
        transport.set_protocol(self)
        if rest:
            self.data_received(rest)

    def send(self, piece: bytes) -> None:
        if not self.closed:
            self._transport.writelines((len(piece).to_bytes(_LENGTH_BYTES, "big"), piece))

    def close(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) < _LENGTH_BYTES:
            return
        end = _LENGTH_BYTES + int.from_bytes(self._buffer[:_LENGTH_BYTES], "big")
        if end > _LENGTH_BYTES + PIECE_BYTES_MAX or len(self._buffer) > end:
            # too long, or more than one at a time
            self.close()
        elif len(self._buffer) == end:
            piece = bytes(self._buffer[_LENGTH_BYTES:])
            self._buffer = bytearray()
            self._taken(self, piece)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        if self.on_close is not None:
            self.on_close(self)


class PeerQueryClient:
    """Asks other nodes. `converse` does the handshake with a node and gives the conversation its socket."""

    def __init__(self, converse: Callable[[PeerConversation], Awaitable[None]]) -> None:
        self._converse = converse
        self._idle: dict[str, list[PeerConversation]] = {}
        self._places: dict[str, asyncio.Semaphore] = {}
        self._answers: dict[PeerConversation, asyncio.Future[bytes]] = {}

    async def ask(self, node: str, question: bytes) -> bytes:
        """The node's answer; `OSError` says why there is none."""
        place = self._places.setdefault(node, asyncio.Semaphore(CONVERSATIONS_MAX))
        try:
            async with asyncio.timeout(ANSWER_PATIENCE_S), place:
                return await self._ask(node, question)
        except TimeoutError:
            raise OSError(f"no answer in {ANSWER_PATIENCE_S:g} s") from None
        except DialFailed as failure:
            raise OSError(failure.reason) from failure

    async def _ask(self, node: str, question: bytes) -> bytes:
        idle = self._idle.get(node, [])
        while idle:
            conversation = idle.pop()
            try:
                return await self._ask_in(conversation, question)
            except ConnectionError:
                # it was closed because it was idle
                continue
        conversation = PeerConversation(node, self._take)
        await self._converse(conversation)
        return await self._ask_in(conversation, question)

    async def _ask_in(self, conversation: PeerConversation, question: bytes) -> bytes:
        if conversation.closed:
            raise ConnectionResetError("it hung up")
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers[conversation] = answer
        conversation.on_close = self._lost
        try:
            conversation.send(question)
            reply = await answer
        except BaseException:
            conversation.close()
            raise
        finally:
            del self._answers[conversation]
        self._idle.setdefault(conversation.node, []).append(conversation)
        return reply

    def close(self) -> None:
        for conversation in [*self._answers, *(one for idle in self._idle.values() for one in idle)]:
            conversation.close()
        self._idle.clear()

    def _take(self, conversation: PeerConversation, piece: bytes) -> None:
        answer = self._answers.get(conversation)
        if answer is None or answer.done():
            conversation.close()
        else:
            answer.set_result(piece)

    def _lost(self, conversation: PeerConversation) -> None:
        answer = self._answers.get(conversation)
        if answer is not None and not answer.done():
            answer.set_exception(ConnectionResetError("it hung up"))
        idle = self._idle.get(conversation.node, [])
        if conversation in idle:
            idle.remove(conversation)


class PeerQueryServer:
    """Answers other nodes, once it has a handler; before that it closes the connection."""

    def __init__(self) -> None:
        self.answer: AnswerQuestion | None = None
        self._conversations: dict[PeerConversation, asyncio.TimerHandle | None] = {}
        self._answering: dict[PeerConversation, asyncio.Task[None]] = {}

    def let_in(self, node: str, transport: asyncio.Transport, rest: bytes) -> None:
        having = sum(1 for one in self._conversations if one.node == node)
        if self.answer is None or having >= CONVERSATIONS_MAX:
            transport.abort()
            return
        conversation = PeerConversation(node, self._take)
        conversation.on_close = self._lost
        self._conversations[conversation] = None
        self._rest(conversation)
        conversation.take_over(transport, rest)

    def close(self) -> None:
        for conversation in list(self._conversations):
            conversation.close()

    def _take(self, conversation: PeerConversation, question: bytes) -> None:
        if conversation in self._answering:
            conversation.close()
            return
        self._wake(conversation)
        task = asyncio.get_running_loop().create_task(self._send_answer(conversation, question))
        self._answering[conversation] = task

    async def _send_answer(self, conversation: PeerConversation, question: bytes) -> None:
        assert self.answer is not None
        try:
            answer = await self.answer(question)
        except BaseException:
            conversation.close()
            raise
        finally:
            del self._answering[conversation]
        if len(answer) > PIECE_BYTES_MAX:
            conversation.close()
        elif not conversation.closed:
            conversation.send(answer)
            self._rest(conversation)

    def _rest(self, conversation: PeerConversation) -> None:
        loop = asyncio.get_running_loop()
        self._conversations[conversation] = loop.call_later(IDLE_S, conversation.close)

    def _wake(self, conversation: PeerConversation) -> None:
        handle = self._conversations.get(conversation)
        if handle is not None:
            handle.cancel()

    def _lost(self, conversation: PeerConversation) -> None:
        self._wake(conversation)
        self._conversations.pop(conversation, None)
        if conversation in self._answering:
            self._answering[conversation].cancel()


JOIN_BYTES_MAX = 16 * 1024 * 1024
JOIN_ANSWER_PATIENCE_S = 60.0


class JoinExchange(asyncio.Protocol):
    """One side of a join: sends one piece, and waits for one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, facts: PeerIdentity) -> None:
        self.facts = facts
        self.received: asyncio.Future[bytes] = loop.create_future()
        self._buffer = bytearray()

    def take_over(self, transport: asyncio.Transport, rest: bytes) -> None:
        self._transport = transport
        transport.set_protocol(self)
        if rest:
            self.data_received(rest)

    def send(self, piece: bytes) -> None:
        if len(piece) > JOIN_BYTES_MAX:
            raise ValueError(f"{len(piece)} bytes are more than the {JOIN_BYTES_MAX} that are taken")
        self._transport.writelines((len(piece).to_bytes(_LENGTH_BYTES, "big"), piece))

    async def receive(self) -> bytes:
        """The other side's piece; raises `OSError` if there is none, or an invalid one."""
        try:
            async with asyncio.timeout(JOIN_ANSWER_PATIENCE_S):
                return await self.received
        except TimeoutError:
            raise OSError(f"no answer in {JOIN_ANSWER_PATIENCE_S:g} s") from None

    def close(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self.received.done():
            return
        self._buffer += data
        if len(self._buffer) < _LENGTH_BYTES:
            return
        end = _LENGTH_BYTES + int.from_bytes(self._buffer[:_LENGTH_BYTES], "big")
        if end > _LENGTH_BYTES + JOIN_BYTES_MAX:
            self.received.set_exception(OSError("it is too long"))
            self._transport.abort()
        elif len(self._buffer) >= end:
            self.received.set_result(bytes(self._buffer[_LENGTH_BYTES:end]))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.received.done():
            self.received.set_exception(error or OSError("the other node hung up"))
