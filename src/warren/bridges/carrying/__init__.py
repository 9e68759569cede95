"""From a queue of one broker to an exchange of another.

::

    source ──deliveries──► rewrite ──► publishes ──► destination
       ▲                                                 │
       └── ack ◄──────────── Settling ◄───── confirms ───┘

Everything that has come by the loop's step goes out in one write, and everything that was confirmed in a step is acked
by one cumulative ack: there is no timer, and nobody waits for a batch to fill.

**Order.** One consumer, one channel at each end, so messages are published in the order in which they were delivered.
One that the destination refuses (nacks) goes back to the source's queue, and comes again behind those that were on
their way.

Not here: connecting (`bridges.connecting`), beginning anew after a loss (`bridges.keeper`).
"""
