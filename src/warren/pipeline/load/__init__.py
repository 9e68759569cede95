"""The job `load`: bulk publishing of files, and the reader that splits such messages into rows again.

    files ──▶ records ──▶ source ──▶ job     records of files merged into messages; staged, then published
    splitting                                messages as rows again

Records of CSV, Parquet, spreadsheets and JSON lines are merged into messages, each a JSON array of at most 4 MB. All
are staged before any is published. So faults in the files are known by then, and a load that continues after a kill
publishes the same messages.

Not here: publishing the staged messages (`pipeline.publication`).
"""
