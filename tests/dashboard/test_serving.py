"""The server on an address of this machine, and what ``serve`` refuses."""

from __future__ import annotations

import hashlib
import re
import socket
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import pexpect
import pytest
from dashboard_clients import running

from conftest import Command, start_on_terminal
from stored_runs import opened, recorded, run_of
from torchstone.dashboard import serving
from torchstone.dashboard.asset_files import ASSETS, read_dashboard_asset
from torchstone.dashboard.serving import ServeRequest, open_dashboard

UPLOT = {
    "uplot.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uplot-license.txt": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
"""SHA-256 of the files of uPlot 1.6.32, as its npm package has them."""


def read(address: str) -> tuple[int, str]:
    with urllib.request.urlopen(address) as answer:  # noqa: S310  (an address of this test)
        return answer.status, answer.read().decode()


def test_a_server_answers_many_readers_while_runs_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with opened(str(path)) as database:
        recorded(database, run_of(1))
        with running(path) as started, ThreadPoolExecutor(8) as readers:
            addresses = [
                started.address + page for page in ("", "runs", "cases", "case/1", "machines", "run/1")
            ]
            answers = [readers.submit(read, address) for _ in range(10) for address in addresses]
            for number in range(2, 12):
                recorded(database, run_of(number))
            assert {answer.result()[0] for answer in answers} == {200}
            assert "11 runs" in read(started.address + "runs")[1]


def test_serve_prints_its_address_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    with opened(str(tmp_path / "history.db")) as database:
        recorded(database, run_of(1))
    terminal = start_on_terminal(tmp_path, "serve", "--store", "history.db", "--port", "0", columns=120)
    terminal.expect(r"serving history.db at (http://127.0.0.1:\d+/) \(Ctrl-C ends it\)")
    assert isinstance(terminal.match, re.Match)
    assert read(terminal.match[1])[0] == 200
    terminal.sendintr()
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.4", "::", "example.com"])  # noqa: S104  (refused)
def test_only_this_machine_is_served(torchstone: Command, host: str) -> None:
    ran = torchstone("serve", "--host", host)
    assert ran.code == 2
    assert "only addresses of this machine" in ran.err
    assert "no login" in ran.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--port", "80000"), "expected a number from 0 to 65535"),
        (("--port", "x"), "expected a number from 0 to 65535"),
        (("--root-path", "bench"), "expected a path such as /bench"),
        (("--root-path", "/../x y"), "expected a path such as /bench"),
        (("--store", "nothing.db", "--port", "0"), "there is no store"),
    ],
)
def test_bad_options_are_told(torchstone: Command, arguments: tuple[str, ...], told: str) -> None:
    ran = torchstone("serve", *arguments)
    assert ran.code == 2
    assert told in ran.err


def test_a_port_that_is_taken_is_told(torchstone: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = torchstone("serve", "--port", str(taken.getsockname()[1]))
    assert ran.code == 2
    assert "--port 0 takes a free one" in ran.err


def test_without_the_web_libraries_serve_says_what_to_install(
    torchstone: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "find_spec", lambda name: None if name == "uvicorn" else metadata)
    ran = torchstone("serve")
    assert ran.code == 2
    assert "serve requires uvicorn, which is not installed" in ran.err
    assert "torchstone[web]" in ran.err


def test_serving_loads_the_web_libraries_only_when_it_serves() -> None:
    code = (
        "import torchstone.cli.commands.keeping.serve, sys; print({'starlette', 'uvicorn'} & {*sys.modules})"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def test_uplot_is_what_its_package_has() -> None:
    for name, expected in UPLOT.items():
        assert hashlib.sha256(read_dashboard_asset(name)).hexdigest() == expected, name
    assert b"1.6.32" in read_dashboard_asset("uplot.js")
    assert b"MIT" in read_dashboard_asset("uplot-license.txt")


def test_every_asset_is_there_and_names_nothing_elsewhere() -> None:
    for name in ASSETS:
        text = read_dashboard_asset(name)
        assert text
        if name.endswith((".css", ".js")) and not name.startswith("uplot"):
            assert b"http://" not in text
            assert b"https://" not in text


def test_an_address_of_version_six_is_written_in_brackets(tmp_path: Path) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    with opened(str(tmp_path / "history.db")) as database:
        recorded(database, run_of(1))
    started = open_dashboard(ServeRequest(store=str(tmp_path / "history.db"), host="::1", port=0))
    assert started.address.startswith("http://[::1]:")
    started.stop()
