"""`warren pipeline`: a command for each Spark job.

Not here: the jobs (`warren.pipeline`).
"""
