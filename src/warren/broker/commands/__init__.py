"""Commands of operators: the requests, the handler of each, and the control that checks, commits and answers them.

Not here: the HTTP API that sends them (`admin`), commands about mirrors (`broker.cluster.mirror_commands`).
"""
