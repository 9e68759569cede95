"""What a node keeps on disk, as bytes and as rules: the journal's records, its recovery, the metadata. No file is
opened here."""
