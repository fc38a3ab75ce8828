"""Two hosts on one machine: network namespaces with addresses, names and /etc/hosts of their own, joined by a veth pair that can be cut."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

INTERFACE = "veth0"
_NOBODY = (
    "02:00:00:00:00:01"  # no interface has this address: what is sent to it is dropped, and nobody is told
)
_OWN_HOSTS = Path("/etc/netns")  # what ip shows to the processes of a namespace in place of files in /etc


class Host(NamedTuple):
    """One of the two: the name that it has for itself and for the other, its address, and its namespace."""

    name: str
    address: str
    namespace: str

    def command(self, *words: str) -> list[str]:
        """A command that runs another on this host, as the same process."""
        rename = 'hostname "$0" && exec "$@"'
        return [
            "ip", "netns", "exec", self.namespace, "unshare", "--uts", "sh", "-c", rename, self.name, *words,
        ]  # fmt: skip


class TwoHosts(NamedTuple):
    """The two hosts, and the link between them."""

    first: Host
    second: Host

    def cut(self) -> None:
        """From now on nothing arrives, in both directions; no end is told of it, as when a switch in between goes down."""
        for host, other in ((self.first, self.second), (self.second, self.first)):
            _ip("-n", host.namespace, "neigh", "replace", other.address, "lladdr", _NOBODY, "dev", INTERFACE, "nud", "permanent")  # fmt: skip

    def unplug(self) -> None:
        """Take the second host off the link, so that both see that it is down."""
        _ip("-n", self.second.namespace, "link", "set", INTERFACE, "down")

    def traffic(self) -> int:
        """How many bytes have come to the second host."""
        told = json.loads(_ip("-n", self.second.namespace, "-s", "-j", "link", "show", INTERFACE))
        return int(told[0]["stats64"]["rx"]["bytes"])

    def processes(self) -> list[int]:
        """All processes that are on one of the two hosts."""
        found = [_ip("netns", "pids", host.namespace).split() for host in (self.first, self.second)]
        return [int(pid) for pids in found for pid in pids]


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def supported() -> str:
    """The reason why there cannot be two hosts on this machine; empty if there can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are of Linux"
    for command in ("ip", "unshare", "hostname"):
        if shutil.which(command) is None:
            return f"there is no command '{command}'"
    try:
        with two_hosts() as hosts:
            for host in (hosts.first, hosts.second):
                subprocess.run(host.command("true"), capture_output=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", b"") or b""
        return f"namespaces are not allowed here: {error} {said.decode(errors='replace').strip()}".strip()
    return ""


@contextlib.contextmanager
def two_hosts(names: Sequence[str] = ("alpha", "beta")) -> Iterator[TwoHosts]:
    """Set up two hosts; at the end every process on them is ended, and nothing of them is left."""
    mark = uuid.uuid4().hex[:8]
    hosts = TwoHosts(
        *(Host(name, f"10.211.1.{number}", f"ts-{mark}-{number}") for number, name in enumerate(names, 1))
    )
    with contextlib.ExitStack() as stack:
        for host in hosts:
            stack.callback(_remove, host)
            _ip("netns", "add", host.namespace)
            own = _OWN_HOSTS / host.namespace
            while not own.is_dir():
                with contextlib.suppress(
                    FileNotFoundError
                ):  # another test has just taken away the empty folder above
                    own.mkdir(parents=True)
            known = [f"{each.address} {each.name}" for each in hosts]
            (own / "hosts").write_text("\n".join(["127.0.0.1 localhost", *known, ""]))
        _ip("link", "add", INTERFACE, "netns", hosts.first.namespace, "type", "veth",
            "peer", "name", INTERFACE, "netns", hosts.second.namespace)  # fmt: skip
        for host in hosts:
            _ip("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", INTERFACE)
            _ip("-n", host.namespace, "link", "set", "lo", "up")
            _ip("-n", host.namespace, "link", "set", INTERFACE, "up")
        yield hosts


def _remove(host: Host) -> None:
    """End what runs on a host, and take it away; some of it may never have been made."""
    with contextlib.suppress(OSError):
        for pid in _ip("netns", "pids", host.namespace).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)
    with contextlib.suppress(OSError):
        _ip("netns", "del", host.namespace)
    shutil.rmtree(_OWN_HOSTS / host.namespace, ignore_errors=True)
    with contextlib.suppress(OSError):
        _OWN_HOSTS.rmdir()  # unless somebody else has something there
