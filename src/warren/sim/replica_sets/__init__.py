"""A model of one replica set: the production master, mirror, publish window and delivery watermark in small model
nodes, and nothing else of a broker.

A run of whole brokers takes twenty times as long. The model's links, disks, store and queue are the least that these
machines need, and their states can be compared: so hundreds of thousands of random schedules can be run, and every
schedule of a small replica set.

Not here: replica sets in whole brokers (`sim.cluster`).
"""
