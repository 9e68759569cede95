"""`warren pipeline`: a command for each job on Spark.

Not here: what the jobs do (`warren.pipeline`).
"""
