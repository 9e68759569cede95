"""Lists of many rows: filters, pages, order and columns. Only rows that are shown are built.

Not here: the fields of a row (`admin.resources`).
"""
