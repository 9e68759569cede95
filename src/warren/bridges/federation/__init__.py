"""Federation: exchanges and queues of this broker that take from their like in other brokers.

A policy makes an exchange or a queue federated by naming *upstreams*, which are parameters. Each pair of a federated
thing and one of its upstreams is a *link*, and a link is a bridge that carries from there to here.

**An exchange** gets what is published to the upstream's exchange, as far as anybody here is bound for it. So its
bindings are made upstream as well, and taken back when they go::

    upstream exchange ──bindings──► internal exchange ──────────► queue ──link──► exchange here
      "fx"                          "federation: fx -> NAME ID A"   "federation: fx -> NAME"

The queue keeps what comes while the link is down. The internal exchange is what the bindings lead to, because AMQP
cannot list them: whenever a link begins, another one is made beside it (A and B take turns), gets all bindings there
are, and only then the one before goes, with bindings that nobody wants any more.

**A queue** takes from the upstream's queue what nobody wants there and somebody wants here: it consumes with a low
priority, and only while it is empty and has consumers that wait.

**Loops end.** A message has a list of the brokers it came through (`x-received-from`), and goes no further when that
has `max-hops`, or this broker, in it. Bindings have one, too (`x-bound-from`).

All names, headers and arguments are RabbitMQ's, so each end may be either; only internal exchanges have the id of their
link in their name (`federation.names` says why).

Not here: carrying (`bridges.carrying`), what is a good upstream (`federation.parameters`).
"""
