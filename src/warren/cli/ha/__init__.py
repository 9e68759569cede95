"""`warren ha`: load balancers and a virtual address before a cluster: described, rendered, planned, and checked from
outside. Not here: a cluster on one machine (`cli.cluster`).
"""
