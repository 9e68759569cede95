"""The data pipeline: jobs on Spark that archive, audit, reconcile and repair what flows through the broker.

Each job is a few functions from DataFrames to DataFrames, which do no I/O; a `job` module that reads, calls them and
writes; and a command (`warren pipeline`). Batch is the authority: whatever a job writes it writes again when it is run
again on the same input, pages and summaries to the byte and tables row by row, so that a job that was killed is simply
run again.

What is written either counts whole or not at all: a table by the one small file that names its data (`tables`), what
comes in without end by Spark's checkpoint and log of files (`trace`).

Nothing here reaches into the Java behind Spark, so that all of it runs through Spark Connect, too.

Not here: reading and writing messages (`warren.spark`).
"""
