"""Answers on well-known addresses inside a container's own network, so that probes have something
to find: TCP and UDP listeners, and a name server that knows every name. Needs NET_ADMIN; standard
library only. Arguments: further addresses, those of name servers. It changes nothing outside the
network namespace that it runs in.
"""

import fcntl
import socket
import struct
import sys
import threading

ADDRESSES = ["1.1.1.1", "8.8.8.8", "169.254.169.254"]
SIOCSIFADDR, SIOCSIFFLAGS = 0x8916, 0x8914
UP = 0x1 | 0x40


def add(number, address):
    """Another address of the loopback interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        name = b"lo:%d" % number
        packed = struct.pack("16sH2s4s8s", name, socket.AF_INET, b"", socket.inet_aton(address), b"")
        fcntl.ioctl(sock, SIOCSIFADDR, packed)
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sH14s", name, UP, b""))


def tcp(port):
    server = socket.create_server(("0.0.0.0", port))
    while True:
        server.accept()[0].close()


def udp():
    """Answers every question with one address."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("0.0.0.0", 53))
    while True:
        query, peer = sock.recvfrom(512)
        end = query.index(b"\0", 12) + 5
        answer = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04" + socket.inet_aton("192.0.2.7")
        wanted = query[end - 4 : end - 2] == b"\x00\x01"
        head = query[:2] + b"\x81\x80\x00\x01" + (b"\x00\x01" if wanted else b"\x00\x00") + bytes(4)
        sock.sendto(head + query[12:end] + (answer if wanted else b""), peer)


for place, one in enumerate(dict.fromkeys([*ADDRESSES, *sys.argv[1:]]), start=1):
    if not one.startswith("127."):
        add(place, one)
threads = [threading.Thread(target=tcp, args=(port,)) for port in (80, 443)]
threads.append(threading.Thread(target=udp))
for thread in threads:
    thread.start()
sys.stdout.write("ready\n")
sys.stdout.flush()
