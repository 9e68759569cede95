"""The documentation, held against the code: examples run, tables are complete, links lead somewhere."""
