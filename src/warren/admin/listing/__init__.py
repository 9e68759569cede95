"""Lists of many rows: filters, pages, order and columns, without building a row that nobody sees."""
