"""What a container of an image can see and reach, as one line of JSON on standard output.

Standard library only, Python 3.6 or newer; run inside the container with -I -S as its default user.
It only reports; what is a leak is decided outside. Argument: the work directory.
"""

import json
import os
import socket
import subprocess
import sys
import threading

SECONDS = 1.5
PUBLIC = [("1.1.1.1", 443), ("1.1.1.1", 80), ("8.8.8.8", 53), ("9.9.9.9", 443), ("140.82.112.3", 443)]
PUBLIC6 = [("2606:4700:4700::1111", 443), ("2001:4860:4860::8888", 53)]
METADATA = [
    ("169.254.169.254", 80),
    ("169.254.170.2", 80),
    ("100.100.100.200", 80),
    ("192.0.0.192", 80),
    ("fd00:ec2::254", 80),
]
NAMES = [
    "example.com",
    "github.com",
    "one.one.one.one",
    "metadata.google.internal",
    "host.docker.internal",
]
NEIGHBOURS = ["172.17.0.1", "172.18.0.1", "10.0.2.2", "10.0.2.3", "192.168.65.1", "192.168.65.2"]
PORTS = [22, 53, 80, 443, 2375, 3128, 8080]
QUERY = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01"


def text(path):
    try:
        with open(path, errors="replace") as stream:
            return stream.read(65536)
    except OSError:
        return ""


def tcp(found, address, port):
    """A connection that is made, or refused by something that answers, is an answer."""
    try:
        socket.create_connection((address, port), timeout=SECONDS).close()
        found.append({"target": f"{address} port {port}", "answer": "connected"})
    except ConnectionRefusedError:
        found.append({"target": f"{address} port {port}", "answer": "refused by the other side"})
    except (OSError, ValueError):
        pass


def udp(found, address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.settimeout(SECONDS)
            sock.sendto(QUERY, (address, port))
            answer = "a packet left"
            try:
                if sock.recv(512):
                    answer = "answered"
            except OSError:
                pass
            found.append({"target": f"{address} port {port}", "answer": answer})
    except OSError:
        pass


def name(found, host):
    try:
        for entry in socket.getaddrinfo(host, 80)[:1]:
            found.append({"target": host, "answer": entry[4][0]})
    except OSError:
        pass


def gateways():
    found = []
    for line in text("/proc/net/route").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 2 and fields[2] != "00000000":
            raw = bytes.fromhex(fields[2])[::-1]
            found.append(".".join(str(byte) for byte in raw))
    return found


def git(folder):
    def ask(*words):
        command = ["git", "-c", "safe.directory=*", "-C", folder, *list(words)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
        return done.stdout.decode("utf-8", "replace").split("\n")

    found = []
    commits = [line for line in ask("rev-list", "--all", "--reflog") if line]
    if len(commits) > 1:
        found.append({"target": "rev-list --all --reflog", "answer": f"{len(commits)} commits"})
    for words in (
        ["remote"],
        ["stash", "list"],
        ["tag"],
        ["reflog"],
        ["worktree", "list", "--porcelain"],
    ):
        lines = [line for line in ask(*words) if line]
        if words[0] == "worktree":
            lines = [line for line in lines if line.startswith("worktree ")][1:]
        if words == ["reflog"] and len(lines) == len(commits) == 1:
            continue  # it only tells that the one commit was made
        if lines:
            found.append({"target": " ".join(words), "answer": lines[0]})
    lost = [
        line
        for line in ask("fsck", "--unreachable", "--no-reflogs", "--no-progress")
        if "unreachable" in line
    ]
    if lost:
        found.append({"target": "fsck", "answer": f"{len(lost)} unreachable objects"})
    return found


def main():
    lists = {key: [] for key in ("tcp", "udp", "dns", "ipv6", "metadata", "gateway")}
    jobs = [(tcp, lists["tcp"], a, p) for a, p in PUBLIC]
    jobs += [(udp, lists["udp"], a, 53) for a in ("8.8.8.8", "1.1.1.1")]
    jobs += [(tcp, lists["ipv6"], a, p) for a, p in PUBLIC6]
    jobs += [(udp, lists["ipv6"], PUBLIC6[1][0], 53)]
    jobs += [(tcp, lists["metadata"], a, p) for a, p in METADATA]
    jobs += [(tcp, lists["gateway"], a, p) for a in NEIGHBOURS + gateways() for p in PORTS]
    jobs += [(name, lists["dns"], host) for host in NAMES]
    threads = [threading.Thread(target=job[0], args=job[1:], daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(8)
    report = dict(lists)
    try:
        report["git"] = git(sys.argv[1])
    except (OSError, subprocess.SubprocessError) as error:
        report["no_git"] = str(error)[:200]
    for key, path in (
        ("dev", "/proc/net/dev"),
        ("route", "/proc/net/route"),
        ("route6", "/proc/net/ipv6_route"),
        ("address6", "/proc/net/if_inet6"),
        ("mountinfo", "/proc/self/mountinfo"),
    ):
        report[key] = text(path)
    report["environment"] = "\n".join("{}={}".format(*item) for item in sorted(os.environ.items()))
    sys.stdout.write("\nRACE-LIVE " + json.dumps(report) + "\n")


main()
