"""Shared by several kinds of tests: a raw AMQP client, without code of the broker, and nodes as processes."""
