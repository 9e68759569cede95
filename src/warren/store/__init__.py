"""What a node keeps on disk, as bytes and as the machines that decide about them."""
