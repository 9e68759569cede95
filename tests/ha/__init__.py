"""What `warren ha` renders, plans and checks, with Debian's HAProxy, Keepalived and nft, and with real nodes."""
