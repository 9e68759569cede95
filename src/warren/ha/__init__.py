"""What stands before a cluster: load balancers and a virtual address, described, rendered, planned and judged.

Pure: a `Deployment` comes in as text or as answers of the HTTP API, configurations and sentences go out.

Not here: files, programs and sockets (`cli.ha`), the listeners' side of it (`node`).
"""
