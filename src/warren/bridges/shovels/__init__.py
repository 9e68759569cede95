"""Shovels: one takes from a queue or an exchange of one broker and publishes to another, for as long as it is defined.

A dynamic shovel is a parameter of the component `shovel`, with RabbitMQ's fields::

    parameter ── fields.refusals ── definition.shovel_of ──► Shovel ── live ──► reach both ends, declare, carry

Not here: shovels of a configuration file, which RabbitMQ has as well; AMQP 1.0 as a protocol of either end.
"""
