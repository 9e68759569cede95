"""Links between nodes on asyncio: the door, dialling, the links themselves, the cookie, where to look for others."""
