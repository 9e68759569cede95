"""`warren ha render`, `plan` and `check`, with Debian's HAProxy, Keepalived and nft, and with real nodes."""
