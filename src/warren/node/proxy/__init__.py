"""The PROXY protocol: a load balancer says, ahead of what a client sends, where that client is."""
