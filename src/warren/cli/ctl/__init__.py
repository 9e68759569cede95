"""`warren ctl`: rabbitmqctl's verbs, with its arguments, columns, messages and exit codes, over the HTTP API.
Not here: the HTTP API (`admin`).
"""
