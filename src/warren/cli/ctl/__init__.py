"""`warren ctl`: rabbitmqctl's verbs, with its arguments, columns, messages and exit codes, over the HTTP API.

::

    arguments ─ command_line ─▶ Call ─ run ─▶ a verb of verbs/ ─ api ─▶ HTTP
                                         ◀─ Rows, Text or Nothing ─ output ─▶ standard output
                                         ◀─ Failure ─▶ standard error and an exit code

A verb is an entry in `catalog`: what it takes, what it says before it starts, what it does. It speaks only HTTP, so it
works with any server of that API, here or elsewhere.

Not here: the HTTP API itself (`admin`); the other commands of `warren` (`cli.main`).
"""
