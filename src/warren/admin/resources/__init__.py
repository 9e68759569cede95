"""The resources of the management API, one module for each family of paths."""
