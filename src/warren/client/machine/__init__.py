"""The client's side of AMQP 0-9-1 as one pure machine: bytes in, events out; calls in, bytes out.

    events = machine.receive(data, now_ms)      what the broker sent
    ticket = channel.call(QueueDeclare("q"))    a request; the answer is a `CallAnswered` with this ticket
    data = machine.take_output()                all bytes to send, in one piece

There is no socket, clock or thread inside. The caller passes in the bytes read and the time, and sends the output.
A call writes its method and returns; its answer is an event.

Calls of a channel are answered in the order they were made, so several calls can be pending (`machine.channel`).

Publishes of a channel with confirms are numbered from 1. Confirms become ranges of numbers with the same outcome, and
each number is in exactly one range. A return carries no number, so a returned message is matched by its content with
the mandatory publishes that are not decided (`machine.publishes`).

Deliveries are slices of the bytes read, decoded on first use. Acks are collected; acks without a gap become one
`basic.ack` with `multiple` when the output is taken (`machine.deliveries`).

Everything that a broker sends is an event or ends the connection, and raises nothing. A mistake of the program (a call
on a closed channel, a delivery acked twice) raises a `ValueError` and sends nothing.

Not here: sockets, TLS, waiting, addresses (`warren.client`).
"""
