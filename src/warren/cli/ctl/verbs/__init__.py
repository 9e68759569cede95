"""What each verb of `warren ctl` does, a module for each kind of thing it is done to.

Every module has `VERBS`, in the order in which help lists them.

Not here: the table of all of them (`cli.ctl.catalog`).
"""
