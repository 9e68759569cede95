"""Bridges: messages carried from one broker to another, by shovels and by federation.

::

    parameters, policies ──► wanted bridges ──► Supervisor ──► a Keeper for each ──► Bridge.live, again and again
                                                                                        │
                             source broker ◄── client.Connection ── carry() ── client.Connection ──► destination broker

A bridge is a client of both its ends. It knows nothing of the broker it runs in but what `host.Host` tells; an end
that is this broker itself is reached without a socket (`Host.connect_here`), and is a connection like any other.

**Nothing is lost** with `on-confirm`: a delivery is acked at the source when the destination has confirmed its
publish, and not before. When either end is lost both are dropped; what the source had not seen acked comes again,
marked as redelivered. So a message can arrive twice only if it was published and its confirm, or the ack that follows
from it, did not get through. Those are the *uncertain* ones, and the log has their message ids when it happens.

**One at a time.** Of the running nodes of a cluster one runs a bridge, the one that all of them find by the same
rule (`Host.responsible_for`). When members come and go two may run it for a moment. That is harmless: each message is
delivered to one of them.

A bridge that breaks is tried again after its delay, for ever; one whose definition changes is stopped and begun anew.

Not here: how a node knows what is to be bridged (`node.bridging`), HTTP and pages (`admin`), a client's own way of
staying connected (`client.recovering`), which hides losses that a bridge has to know of.
"""
