"""The data pipeline: jobs on Spark that archive, audit, reconcile and repair what flows through the broker.

Each job is a few functions from DataFrames to DataFrames, which do no I/O; a `job` module that reads, calls them and
writes; and a command (`warren pipeline`). Batch is the authority: a job that runs again on the same input writes the
same result, pages and summaries to the byte and tables row by row. So a job that was killed is simply run again.

A result counts whole or not at all: a table by the one small file that names its data (`tables`), an endless input by
Spark's checkpoint and log of files (`trace`).

Nothing here reaches into the Java behind Spark, so all of it also runs through Spark Connect.

Not here: reading and writing messages (`warren.spark`).
"""
