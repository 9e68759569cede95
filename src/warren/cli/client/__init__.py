"""`warren client`: settings of client programs checked, and the jobs that run beside them.
Not here: the jobs themselves (`warren.client`).
"""
