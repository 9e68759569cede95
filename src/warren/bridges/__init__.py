"""Messages carried from one broker to another: shovels, federation, and the transfer engine both use.

Not here: what the node tells its bridges (`node.bridge_host`), connections to brokers (`warren.client`).
"""
