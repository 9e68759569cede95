"""A node's configuration: the file, its keys, their values, and the settings that come of them."""
