"""`warren client`: checks settings of client programs, and runs the jobs of the reliability SDK.

Not here: the jobs themselves (`warren.client`).
"""
