"""From the payload of a method frame to the method it carries, and from a method to its frame.

Invariants: the table knows every method of the specification and of RabbitMQ's extensions, under its class and id.
Any bytes decode or raise a `ConnectionFault`. Arguments that are too short or too long are the fault RabbitMQ makes of
them; at ids that do not exist RabbitMQ merely hangs up, so they get the code it has for methods it does not implement.

Not here: who may send what, and when (`session`).
"""

from collections.abc import Callable
from typing import Final

from librt.strings import BytesWriter, read_i32_be, write_i32_be
from mypy_extensions import i64

from warren.errors import COMMAND_INVALID, FRAME_ERROR, ConnectionFault
from warren.wire.frames import FRAME_END, METHOD, unknown_frame
from warren.wire.methods.basic import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
)
from warren.wire.methods.connection import (
    AccessRequest,
    AccessRequestOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from warren.wire.methods.method import Method
from warren.wire.methods.topology import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from warren.wire.methods.transactions import (
    ConfirmSelect,
    ConfirmSelectOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from warren.wire.scalars import patch_size, write_short
from warren.wire.values import ArgumentReader

READERS: Final[dict[int, Callable[[ArgumentReader], Method]]] = {
    10 << 16 | 10: ConnectionStart.read,
    10 << 16 | 11: ConnectionStartOk.read,
    10 << 16 | 20: ConnectionSecure.read,
    10 << 16 | 21: ConnectionSecureOk.read,
    10 << 16 | 30: ConnectionTune.read,
    10 << 16 | 31: ConnectionTuneOk.read,
    10 << 16 | 40: ConnectionOpen.read,
    10 << 16 | 41: ConnectionOpenOk.read,
    10 << 16 | 50: ConnectionClose.read,
    10 << 16 | 51: ConnectionCloseOk.read,
    10 << 16 | 60: ConnectionBlocked.read,
    10 << 16 | 61: ConnectionUnblocked.read,
    10 << 16 | 70: ConnectionUpdateSecret.read,
    10 << 16 | 71: ConnectionUpdateSecretOk.read,
    20 << 16 | 10: ChannelOpen.read,
    20 << 16 | 11: ChannelOpenOk.read,
    20 << 16 | 20: ChannelFlow.read,
    20 << 16 | 21: ChannelFlowOk.read,
    20 << 16 | 40: ChannelClose.read,
    20 << 16 | 41: ChannelCloseOk.read,
    30 << 16 | 10: AccessRequest.read,
    30 << 16 | 11: AccessRequestOk.read,
    40 << 16 | 10: ExchangeDeclare.read,
    40 << 16 | 11: ExchangeDeclareOk.read,
    40 << 16 | 20: ExchangeDelete.read,
    40 << 16 | 21: ExchangeDeleteOk.read,
    40 << 16 | 30: ExchangeBind.read,
    40 << 16 | 31: ExchangeBindOk.read,
    40 << 16 | 40: ExchangeUnbind.read,
    40 << 16 | 51: ExchangeUnbindOk.read,
    50 << 16 | 10: QueueDeclare.read,
    50 << 16 | 11: QueueDeclareOk.read,
    50 << 16 | 20: QueueBind.read,
    50 << 16 | 21: QueueBindOk.read,
    50 << 16 | 30: QueuePurge.read,
    50 << 16 | 31: QueuePurgeOk.read,
    50 << 16 | 40: QueueDelete.read,
    50 << 16 | 41: QueueDeleteOk.read,
    50 << 16 | 50: QueueUnbind.read,
    50 << 16 | 51: QueueUnbindOk.read,
    60 << 16 | 10: BasicQos.read,
    60 << 16 | 11: BasicQosOk.read,
    60 << 16 | 20: BasicConsume.read,
    60 << 16 | 21: BasicConsumeOk.read,
    60 << 16 | 30: BasicCancel.read,
    60 << 16 | 31: BasicCancelOk.read,
    60 << 16 | 40: BasicPublish.read,
    60 << 16 | 50: BasicReturn.read,
    60 << 16 | 60: BasicDeliver.read,
    60 << 16 | 70: BasicGet.read,
    60 << 16 | 71: BasicGetOk.read,
    60 << 16 | 72: BasicGetEmpty.read,
    60 << 16 | 80: BasicAck.read,
    60 << 16 | 90: BasicReject.read,
    60 << 16 | 100: BasicRecoverAsync.read,
    60 << 16 | 110: BasicRecover.read,
    60 << 16 | 111: BasicRecoverOk.read,
    60 << 16 | 120: BasicNack.read,
    85 << 16 | 10: ConfirmSelect.read,
    85 << 16 | 11: ConfirmSelectOk.read,
    90 << 16 | 10: TxSelect.read,
    90 << 16 | 11: TxSelectOk.read,
    90 << 16 | 20: TxCommit.read,
    90 << 16 | 21: TxCommitOk.read,
    90 << 16 | 30: TxRollback.read,
    90 << 16 | 31: TxRollbackOk.read,
}

NAMES: Final[dict[int, str]] = {
    10 << 16 | 10: "connection.start",
    10 << 16 | 11: "connection.start-ok",
    10 << 16 | 20: "connection.secure",
    10 << 16 | 21: "connection.secure-ok",
    10 << 16 | 30: "connection.tune",
    10 << 16 | 31: "connection.tune-ok",
    10 << 16 | 40: "connection.open",
    10 << 16 | 41: "connection.open-ok",
    10 << 16 | 50: "connection.close",
    10 << 16 | 51: "connection.close-ok",
    10 << 16 | 60: "connection.blocked",
    10 << 16 | 61: "connection.unblocked",
    10 << 16 | 70: "connection.update-secret",
    10 << 16 | 71: "connection.update-secret-ok",
    20 << 16 | 10: "channel.open",
    20 << 16 | 11: "channel.open-ok",
    20 << 16 | 20: "channel.flow",
    20 << 16 | 21: "channel.flow-ok",
    20 << 16 | 40: "channel.close",
    20 << 16 | 41: "channel.close-ok",
    30 << 16 | 10: "access.request",
    30 << 16 | 11: "access.request-ok",
    40 << 16 | 10: "exchange.declare",
    40 << 16 | 11: "exchange.declare-ok",
    40 << 16 | 20: "exchange.delete",
    40 << 16 | 21: "exchange.delete-ok",
    40 << 16 | 30: "exchange.bind",
    40 << 16 | 31: "exchange.bind-ok",
    40 << 16 | 40: "exchange.unbind",
    40 << 16 | 51: "exchange.unbind-ok",
    50 << 16 | 10: "queue.declare",
    50 << 16 | 11: "queue.declare-ok",
    50 << 16 | 20: "queue.bind",
    50 << 16 | 21: "queue.bind-ok",
    50 << 16 | 30: "queue.purge",
    50 << 16 | 31: "queue.purge-ok",
    50 << 16 | 40: "queue.delete",
    50 << 16 | 41: "queue.delete-ok",
    50 << 16 | 50: "queue.unbind",
    50 << 16 | 51: "queue.unbind-ok",
    60 << 16 | 10: "basic.qos",
    60 << 16 | 11: "basic.qos-ok",
    60 << 16 | 20: "basic.consume",
    60 << 16 | 21: "basic.consume-ok",
    60 << 16 | 30: "basic.cancel",
    60 << 16 | 31: "basic.cancel-ok",
    60 << 16 | 40: "basic.publish",
    60 << 16 | 50: "basic.return",
    60 << 16 | 60: "basic.deliver",
    60 << 16 | 70: "basic.get",
    60 << 16 | 71: "basic.get-ok",
    60 << 16 | 72: "basic.get-empty",
    60 << 16 | 80: "basic.ack",
    60 << 16 | 90: "basic.reject",
    60 << 16 | 100: "basic.recover-async",
    60 << 16 | 110: "basic.recover",
    60 << 16 | 111: "basic.recover-ok",
    60 << 16 | 120: "basic.nack",
    85 << 16 | 10: "confirm.select",
    85 << 16 | 11: "confirm.select-ok",
    90 << 16 | 10: "tx.select",
    90 << 16 | 11: "tx.select-ok",
    90 << 16 | 20: "tx.commit",
    90 << 16 | 21: "tx.commit-ok",
    90 << 16 | 30: "tx.rollback",
    90 << 16 | 31: "tx.rollback-ok",
}


def decode_method(data: bytes, start: i64, end: i64) -> Method:
    """The method in `data[start:end]`, the payload of a method frame."""
    if end - start < 4:
        raise unknown_frame(METHOD, data[start:end])
    # class and method id as one number, which is the key of the table
    read = READERS.get(int(i64(read_i32_be(data, start)) & 0xFFFFFFFF))
    if read is None:
        raise ConnectionFault(COMMAND_INVALID, "unimplemented method")
    reader = ArgumentReader(data, start + 4, end)
    method = read(reader)
    if not reader.at_end():
        raise reader.fault()
    if reader.malformed_text:
        raise ConnectionFault(FRAME_ERROR, "Malformed UTF-8 in shortstr", blames_method=False)
    return method


def write_method(out: BytesWriter, channel: int, method: Method) -> None:
    """The whole frame of a method."""
    out.append(METHOD)
    write_short(out, channel)
    size_at: i64 = len(out)
    write_i32_be(out, 0)
    write_short(out, method.class_id)
    write_short(out, method.method_id)
    method.write(out)
    patch_size(out, size_at)
    out.append(FRAME_END)


def encode_method(channel: int, method: Method) -> bytes:
    out = BytesWriter()
    write_method(out, channel, method)
    return out.getvalue()


def method_name(class_id: int, method_id: int) -> str:
    """`queue.declare`, or the two numbers of a method that does not exist."""
    return NAMES.get(class_id << 16 | method_id, f"{class_id}.{method_id}")
