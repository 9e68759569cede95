"""`warren pipeline`: a command for each job on Spark.
Not here: the jobs (`warren.pipeline`).
"""
