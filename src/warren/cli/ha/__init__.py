"""`warren ha`: configurations for what stands before a cluster, the plan of its ports, and a check from outside.

Not here: what is rendered and judged (`warren.ha`).
"""
