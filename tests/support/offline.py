"""A machine without data files, whose only network is its loopback: `python offline.py COMMAND...` runs there."""

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
SET_FLAGS, UP = 0x8914, 1
NOWHERE = "http://127.0.0.1:9"
PROXIES = {
    name: NOWHERE for scheme in ("http", "https", "all") for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper())
}
LOCAL = dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1,localhost,::1")


def bare(scratch):
    """An environment without data files, with an empty cache in `scratch`, whose downloads fail at once."""
    kept = {name: value for name, value in os.environ.items() if name != "EXPRIL_DATA_DIR"}
    return kept | PROXIES | LOCAL | {"XDG_CACHE_HOME": str(scratch), "PIP_NO_INDEX": "1"}


def offline(*command):
    """The command, to be run without a network where the kernel permits that; the environment is `bare`'s."""
    return [sys.executable, __file__, *map(str, command)]


def leave_the_network():
    """Enter a network of one's own, of which only the loopback is up; nothing where the kernel forbids it."""
    if sys.platform != "linux":
        return
    libc, user, group = ctypes.CDLL(None, use_errno=True), os.getuid(), os.getgid()
    if libc.unshare(NEW_NETWORK):
        if libc.unshare(NEW_USER | NEW_NETWORK):
            return
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh14x", b"lo", UP))


if __name__ == "__main__":
    leave_the_network()
    os.execvp(sys.argv[1], sys.argv[1:])
