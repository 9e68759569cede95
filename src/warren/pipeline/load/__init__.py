"""Bulk publishing of files, and the reader that takes such messages apart again.

    files ──▶ records ──▶ batches       what files there are, what they say, merged into messages
                  │          │
                  ▼          ▼
                columns    source ──▶ job       a data source of Spark; staged, then published
    splitting                                   messages as rows again

Records of CSV, Parquet, spreadsheets and JSON lines are merged into messages, each a JSON array of at most 4 MB. They
are staged before any is published, so that what is wrong with the files is known by then, and what is published after a
kill is what would have been published without.

Not here: publishing what is staged (`pipeline.publishing`).
"""
