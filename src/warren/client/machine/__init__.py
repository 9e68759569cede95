"""The client's side of AMQP 0-9-1 as one pure machine: bytes in, events out; calls in, bytes out.

    events = machine.receive(data, now_ms)      what the broker said
    ticket = channel.call(QueueDeclare("q"))    what the client wants; the answer is an `Answered` with this ticket
    data = machine.take_output()                everything that is to be sent, in one piece

There is no socket, clock or thread inside. Whoever drives it hands in what was read and what time it is, and sends what
it takes out. Nothing waits: a call writes its method and is done, its answer is an event.

**Calls** of a channel are answered in the order they were made, so a row of tickets says whose answer it is, and calls
may be made one after another without waiting (`machine.channel`).

**Publishes** of a channel with confirms are numbered from 1. What the broker says of them becomes ranges of numbers
that were decided alike; each number is in exactly one range (`machine.confirms`). A message that comes back is found
among those that were sent as mandatory by its looks, because a return carries no number (`machine.returns`).

**Deliveries** are slices of what was read. Nothing in them is decoded before somebody asks (`machine.deliveries`).

**Acks** are gathered, and those that leave no gap behind them become one `basic.ack` with `multiple` when the output is
taken (`machine.acks`).

Whatever a broker sends is an event or ends the connection; nothing it sends raises. What the program does wrong (a call
on a closed channel, a delivery acked twice) raises a `ValueError` and sends nothing.

Not here: sockets, TLS, waiting, addresses (`warren.client`).
"""
