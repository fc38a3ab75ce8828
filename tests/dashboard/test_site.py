"""The dashboard as files: whole, with links that hold, and nothing from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from dashboard_clients import record_nights

import torchstone
from comparison_files import case_of, passed, times
from conftest import Command
from stored_runs import opened, recorded, run_of
from torchstone.dashboard import static_site
from torchstone.dashboard.asset_files import ASSETS


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store of forty nights; only for reading."""
    return record_nights(tmp_path_factory.mktemp("nights"))


@pytest.fixture(scope="module")
def site(nights: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of it; only for reading."""
    folder = tmp_path_factory.mktemp("site") / "made"
    torchstone.make_site(folder, nights, runs=20)
    return folder


class Targets(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in {"href", "src"} and value]


def targets_of(page: Path) -> list[str]:
    parser = Targets()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser.found


def test_every_link_of_the_site_leads_to_one_of_its_files(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        for target in targets_of(page):
            if target.startswith(("#", "data:image/svg+xml,")):
                continue
            assert "://" not in target, (page, target)
            found = (page.parent / unquote(target.partition("#")[0])).resolve()
            assert found.is_file(), (page, target)
            assert found.is_relative_to(site.resolve())


def test_the_site_has_all_pages_and_only_the_newest_runs(site: Path) -> None:
    names = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    assert {
        "index.html",
        "changes.html",
        "change/1.html",
        "cases.html",
        "runs.html",
        "runs-2.html",
        "machines.html",
        "health.json",
    } <= names
    assert {f"assets/{name}" for name in ASSETS} <= names
    assert len([name for name in names if name.startswith("run/")]) == 20
    assert len([name for name in names if name.startswith("case/")]) == 36
    assert (site / "index.html").stat().st_size < 300_000


def test_a_case_shows_all_of_its_series(site: Path) -> None:
    text = (site / "case" / "5.html").read_text()
    assert text.count("<figure") == 5
    assert "<form" not in text
    assert "compare?" not in text


def test_the_command_says_what_to_open(torchstone: Command, nights: str, tmp_path: Path) -> None:
    ran = torchstone("site", "--store", nights, "-o", "public/site", "--runs", "0")
    assert ran.code == 0
    found = re.fullmatch(r"wrote \d+ pages, [\d.]+ MB; open (.*)\n", ran.out)
    assert found
    assert Path(found[1]) == tmp_path / "public" / "site" / "index.html"
    assert not (tmp_path / "public" / "site" / "run").exists()


def test_a_former_site_is_replaced_and_nothing_else(torchstone: Command, tmp_path: Path) -> None:
    with opened(str(tmp_path / "history.db")) as database:
        recorded(database, run_of(1))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("years of work")
    ran = torchstone("site", "--store", "history.db", "-o", "other")
    assert ran.code == 2
    assert "this folder has other files" in ran.err
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["thesis.tex"]
    assert torchstone("site", "--store", "history.db", "-o", "site").code == 0
    (tmp_path / "site" / "case" / "999.html").write_text("of a case that is gone")
    assert torchstone("site", "--store", "history.db", "-o", "site").code == 0
    assert not (tmp_path / "site" / "case" / "999.html").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "no folder given"),
        (("-o", "site", "--store", "none.db"), "there is no store"),
        (("-o", "site", "--runs", "-1"), "expected a whole number from 0"),
        (("-o", "taken"), "this is a file, expected a folder"),
    ],
)
def test_what_cannot_be_written_is_told_and_leaves_nothing(
    torchstone: Command, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    (tmp_path / "taken").write_text("")
    ran = torchstone("site", *arguments)
    assert ran.code == 2
    assert told in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_site_that_fails_halfway_leaves_the_former_one(
    nights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(str(tmp_path / "history.db")) as database:
        recorded(database, run_of(1))
    torchstone.make_site(tmp_path / "site", tmp_path / "history.db")
    before = {path: path.read_bytes() for path in (tmp_path / "site").rglob("*") if path.is_file()}

    def fail(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(static_site, "encode_view", fail)
    with pytest.raises(torchstone.InputError, match="no space left"):
        torchstone.make_site(tmp_path / "site", nights)
    assert {path: path.read_bytes() for path in (tmp_path / "site").rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history.db", "site"]


def test_hostile_names_stay_text_in_files(tmp_path: Path) -> None:
    names = ("</script><script>alert(1)</script>", "../../etc/passwd", "<img src=x onerror=alert(1)>")
    with opened(str(tmp_path / "history.db")) as database:
        recorded(database, run_of(1, [passed(name, times(1.0), case=case_of(name)) for name in names]))
    torchstone.make_site(tmp_path / "site", tmp_path / "history.db")
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text()
        assert "<script>alert" not in text, page
        assert "<img" not in text, page
