"""What a node keeps on disk, as bytes and as rules; no file is opened here."""
