"""First process inside the jail: opens the listeners, passes them out, executes the command.

    jail_entry.py HANDOVER_FD PORT,PORT COMMAND...

Not here: accepting on the listeners (`jail.py`).
"""

import fcntl
import os
import socket
import struct
import sys

SIOCSIFFLAGS = 0x8914
INTERFACE_UP = 0x1


def bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", INTERFACE_UP))


def listeners(port: int) -> list[socket.socket]:
    opened = [socket.create_server(("127.0.0.1", port), backlog=1024)]
    try:
        opened.append(socket.create_server(("::1", port), family=socket.AF_INET6, backlog=1024))
    except OSError as refusal:
        print(f"no IPv6 loopback here ({refusal}); the suite sees IPv4 alone", file=sys.stderr)
    return opened


def main() -> None:
    handover = socket.socket(fileno=int(sys.argv[1]))
    ports, command = [int(port) for port in sys.argv[2].split(",")], sys.argv[3:]
    bring_loopback_up()
    opened = [listener for port in ports for listener in listeners(port)]
    socket.send_fds(handover, [b"listening"], [listener.fileno() for listener in opened])
    for listener in opened:
        listener.close()
    if handover.recv(2) != b"go":
        sys.exit("the forwarder went away before it started")
    handover.close()
    os.execvp(command[0], command)


main()
