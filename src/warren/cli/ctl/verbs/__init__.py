"""What each verb of `warren ctl` does, one module for each resource.
Not here: the table of all verbs (`cli.ctl.catalog`).
"""
