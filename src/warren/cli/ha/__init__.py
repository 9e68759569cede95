"""`warren ha`: renders and checks configurations for load balancers and a virtual address in front of a cluster.

Not here: the nodes (`node`).
"""
