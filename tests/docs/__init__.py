"""The documentation, compared with the code: examples run, tables are complete, links resolve."""
