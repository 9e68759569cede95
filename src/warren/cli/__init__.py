"""The `warren` command."""
