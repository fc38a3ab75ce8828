"""A PostgreSQL server of the tests' own: started on loopback for the session that needs one, and gone afterwards."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PASSWORD = "correct-horse"  # noqa: S105  (of a server that lives as long as the tests)
_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def _program(name: str) -> str:
    found = shutil.which(name) or next(
        (str(folder / name) for folder in _FOLDERS if (folder / name).exists()), ""
    )
    assert found, f"{name} is needed: install PostgreSQL's server, such as Debian's package postgresql"
    return found


@contextmanager
def postgres_server() -> Iterator[str]:
    """Yields the URL of a new server, without a database's name; as root, the server runs as another user."""
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="torchstone-postgres-"))
    try:
        if user:
            shutil.chown(folder, user)
        words = folder / "password"
        words.write_text(PASSWORD)
        words.chmod(0o644)
        data = folder / "data"
        create: list[str | Path] = [
            _program("initdb"),
            "-D",
            data,
            "-U",
            "tester",
            "-A",
            "scram-sha-256",
            "--pwfile",
            words,
            "-E",
            "UTF8",
        ]
        subprocess.run([*create, "--no-locale", "-N"], check=True, capture_output=True, user=user, cwd=folder)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        options = [
            "-h",
            "127.0.0.1",
            "-p",
            str(port),
            "-k",
            str(folder),
            "-c",
            "fsync=off",
            "-c",
            "max_wal_size=4GB",
        ]
        log = folder / "log"
        with open(log, "wb") as errors:
            start: list[str | Path] = [_program("postgres"), "-D", data, *options]
            server = subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=errors, user=user, cwd=folder)
        try:
            _wait_for(port, server, log)
            yield f"postgresql://tester:{PASSWORD}@127.0.0.1:{port}/"
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    ready = [_program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    while subprocess.run(ready, check=False).returncode:
        assert server.poll() is None, log.read_text()
        time.sleep(0.05)
