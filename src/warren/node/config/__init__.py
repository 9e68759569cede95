"""A node's configuration: the file, its keys, the values they take, and the settings made of them.

Not here: what operators change at run time (`node.admin_ports`).
"""
