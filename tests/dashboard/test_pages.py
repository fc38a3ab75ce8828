"""What the pages of the dashboard show, and what they say about addresses that are wrong."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec
import pytest
from dashboard_clients import NIGHTS, client_of, record_nights
from starlette.testclient import TestClient

from comparison_files import case_of, failed, passed, times
from stored_runs import one_number, opened, recorded, run_of
from torchstone.api.browsing.browsing import Memo
from torchstone.core.records import Case, Variant
from torchstone.dashboard.page_table import PAGE_KINDS
from torchstone.store.browsing.run_pages import RunFilter, count_runs, read_run_page

PAGES = ("/", "/changes", "/change/1", "/cases", "/compare", "/runs", "/machines", "/run/1", "/case/1")


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store of forty nights; only for reading."""
    return record_nights(tmp_path_factory.mktemp("dashboard"))


@pytest.fixture
def client(history: str) -> Iterator[TestClient]:
    """Asks the application in this process, without a network."""
    with client_of(history) as made:
        yield made


def json_of(client: TestClient, address: str) -> Any:  # noqa: ANN401  (a view as JSON)
    found = client.get(address)
    assert found.status_code == 200, found.text
    return found.json()


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.has_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.targets |= {str(given[name]) for name in ("href", "src") if given.get(name)}
        self.has_script |= (
            tag == "script" and not given.get("src") and given.get("type") != "application/json"
        )
        assert not any(name.startswith("on") or name == "style" for name in given), given


def links_of(text: str) -> Links:
    found = Links()
    found.feed(text)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_page_answers_with_a_title_and_the_navigation(client: TestClient, page: str) -> None:
    found = client.get(page)
    assert found.status_code == 200
    assert "<title>" in found.text
    assert all(name in found.text for name in ("Health", "Changes", "Cases", "Compare", "Runs", "Machines"))


def test_every_link_of_every_page_leads_somewhere(client: TestClient) -> None:
    seen: set[str] = set()
    todo = ["/"]
    while todo and len(seen) < 400:
        address = todo.pop(0)
        found = client.get(address)
        assert found.status_code == 200, address
        if "html" in found.headers["content-type"]:
            targets = {
                urljoin(address, each)
                for each in links_of(found.text).targets
                if not each.startswith(("#", "data:"))
            }
            assert all(not urlsplit(each).netloc for each in targets), address
            new = {each.partition("#")[0] for each in targets} - seen
            seen |= new
            todo += sorted(new)
    assert len(seen) > 150


@pytest.mark.parametrize("page", PAGES)
def test_pages_allow_nothing_from_elsewhere_and_no_code_in_the_page(client: TestClient, page: str) -> None:
    found = client.get(page)
    policy = found.headers["content-security-policy"]
    if page != "/run/1":  # which brings its own policy, by hash
        assert policy.startswith("default-src 'self';")
        assert not links_of(found.text).has_script
    assert "frame-ancestors 'none'" in policy
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["referrer-policy"] == "same-origin"


def test_there_is_no_list_of_files(client: TestClient) -> None:
    for address in ("/assets/", "/assets", "/assets/../application.py", "/assets/%2e%2e/application.py"):
        assert client.get(address).status_code == 404
    for method in ("post", "put", "delete"):
        assert getattr(client, method)("/runs").status_code == 405


def test_health_counts_what_fails_and_what_is_gone_and_says_why_a_cell_is_empty(client: TestClient) -> None:
    view = json_of(client, "/health.json")
    gone = {each["name"].split(" ")[0] for each in view["gone"]}
    assert gone == {"T5Small"}
    assert view["missing"] == 2
    assert view["cases"] == 36
    assert view["newest_when"] == "2026-02-09T01:00:00Z"
    cells = {
        (row["suite"], column): cell
        for row in view["rows"]
        for column, cell in zip(view["columns"], row["cells"], strict=True)
    }
    assert cells["smoke", "cuda, training"]["why"] == "never measured"
    rate = cells["huggingface", "cuda, training"]["rates"][0]
    assert (rate["cases"], rate["missing"]) == (10, 1)


def test_means_of_health_are_geometric_and_over_the_same_cases(tmp_path: Path) -> None:
    path = str(tmp_path / "history.db")
    with opened(path) as database:
        recorded(
            database,
            run_of(
                1,
                [
                    one_number("a", 2.0, "speedup"),
                    one_number("b", 8.0, "speedup"),
                    one_number("c", 100.0, "speedup"),
                ],
            ),
        )
        recorded(
            database,
            run_of(2, [one_number("a", 2.2, "speedup"), one_number("b", 8.8, "speedup"), failed("d")]),
        )
    with client_of(path) as client:
        view = json_of(client, "/health.json")
    mean = view["rows"][0]["cells"][0]["means"][0]
    assert mean["value"] == pytest.approx((2.2 * 8.8) ** 0.5)
    assert (mean["cases"], mean["matched"], mean["change"]) == (2, 2, "+10.0%")
    assert view["missing"] == 1  # c, which the newest revision lacks


def test_an_empty_store_has_pages_that_say_so(tmp_path: Path) -> None:
    path = str(tmp_path / "history.db")
    with opened(path):
        pass
    with client_of(path) as client:
        for page in ("/", "/changes", "/cases", "/compare", "/runs", "/machines"):
            assert client.get(page).status_code == 200
        assert "torchstone record" in client.get("/").text


def test_runs_are_newest_first_a_hundred_a_page(client: TestClient) -> None:
    first, second = json_of(client, "/runs.json"), json_of(client, "/runs.json?page=2")
    names = [row["name"] for row in (*first["rows"], *second["rows"])]
    assert first["pages"] == 2
    assert len(first["rows"]) == 100
    assert len(set(names)) == len(names) == first["bar"]["total"]
    days = [name[:8] for name in names]
    assert days == sorted(days, reverse=True)


def test_runs_are_found_by_text_branch_and_day(client: TestClient) -> None:
    assert {row["name"][:8] for row in json_of(client, "/runs.json?text=20260105t00")["rows"]} == {"20260105"}
    assert json_of(client, "/runs.json?text=100%25_")["rows"] == []  # neither is a wildcard
    kept = json_of(client, "/runs.json?since=2026-02-01")["rows"]
    assert {row["when"][:7] for row in kept} == {"2026-02"}
    excluded = json_of(client, "/runs.json?text=-hugg")["rows"]
    assert excluded
    assert not [row for row in excluded if "hugg" in row["name"]]


def test_a_run_counts_its_statuses(client: TestClient) -> None:
    rows = [row for page in (1, 2) for row in json_of(client, f"/runs.json?page={page}")["rows"]]
    bad = next(row for row in rows if row["failed"])
    assert bad["failed"][0]["value"] == "OOM"
    assert bad["passed"] + sum(each["count"] for each in bad["failed"]) == bad["cases"]
    assert "out of memory" in client.get(f"/run/{bad['id']}").text


def test_cases_that_need_a_look_come_first_and_filters_combine(client: TestClient) -> None:
    rows = json_of(client, "/cases.json")["rows"]
    good = [row["is_good"] for row in rows]
    assert good == sorted(good)
    some = json_of(client, "/cases.json?suite=timm&mode=training&case=res*%20-/vit/")["rows"]
    assert [row["name"] for row in some] == ["resnet50"]
    others = json_of(client, "/cases.json?suite=-timm")["rows"]
    assert {row["suite"] for row in others} == {"huggingface", "smoke"}
    two = json_of(client, "/cases.json?suite=timm,smoke")["rows"]
    assert {row["suite"] for row in two} == {"timm", "smoke"}


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("/cases?siut=timm", "Did you mean 'suite'?"),
        ("/cases?suite=nope", "nothing has this value. There are: huggingface, smoke, timm."),
        ("/cases?case=/(/", "no regular expression"),
        ("/cases?case=/(a%2B)%2B/", "may take for ever"),
        ("/cases?page=0", "expected a number from 1"),
        ("/cases?page=99", "there are 1; this is the last one"),
        ("/cases?branch=nope", "no run is of this branch. There are: main."),
        ("/runs?since=yesterday", "expected a day such as 2026-12-31"),
        ("/runs?text=" + "x" * 400, "longer than 300 characters"),
        ("/case/1?metric=nope", "the case has no such metric. It has: abs_latency"),
        ("/compare?a=nope&b=main", "nope: no such run, revision or branch"),
    ],
)
def test_a_malformed_filter_is_told_beside_the_filter_bar(
    client: TestClient, address: str, told: str
) -> None:
    found = client.get(address)
    assert found.status_code == 200
    alerts = re.findall(r'role="alert">(.*?)</p>', found.text)
    assert any(told in each for each in alerts), alerts


@pytest.mark.parametrize(
    ("address", "instead"),
    [
        ("/nothing", "Health"),
        ("/run/99999", "20260209T"),
        ("/run/", "20260209T"),
        ("/case/BertForMaskedML", "BertForMaskedLM"),
        ("/case/BertForMaskedLM", "2 cases"),
        ("/change/999", "BertForMaskedLM"),
        ("/change/x", "BertForMaskedLM"),
        ("/assets/nothing.js", "Health"),
        ("/runs/1", "Runs"),
    ],
)
def test_an_unknown_address_says_what_there_is_instead(
    client: TestClient, address: str, instead: str
) -> None:
    found = client.get(address)
    assert found.status_code == 404
    assert instead in found.text
    for target in links_of(found.text).targets - {"#main"}:
        assert client.get(urljoin(address, target)).status_code == 200, target


def test_a_case_has_its_name_as_address_too(client: TestClient) -> None:
    number = json_of(client, "/cases.json?case=resnet50&mode=training")["rows"][0]
    by_name = client.get("/case/" + number["case"].replace("%", "%25")).text
    assert by_name.count("resnet50") > 1


def test_the_history_of_a_case_has_points_gaps_samples_and_environments(client: TestClient) -> None:
    number = json_of(client, "/cases.json?case=/^Bert/&mode=inference")["rows"][0]["id"]
    view = json_of(client, f"/case/{number}.json?metric=abs_latency")
    (chart,) = view["charts"]
    points = [point for point in chart["points"] if point["status"] != "gap"]
    assert len(points) == NIGHTS - 1  # one night was lost
    values = [point["value"] for point in points]
    assert sum(values[-10:]) / 10 > 1.06 * sum(values[:10]) / 10
    assert [mark["text"] for mark in chart["environments"]] == ["driver 570.86 to 580.12"]
    assert len(chart["samples"]) == 5 * len(points)
    text = client.get(f"/case/{number}?metric=abs_latency&second=compile_seconds").text
    assert text.count("<figure") == 2
    assert "history-chart" in text


def test_failures_are_gaps_in_the_line_and_stand_in_the_table(client: TestClient) -> None:
    number = json_of(client, "/cases.json?case=MBart*&mode=training")["rows"][0]["id"]
    view = json_of(client, f"/case/{number}.json")
    without = [point for point in view["charts"][0]["points"] if point["value"] is None]
    assert without
    assert {point["status"] for point in without} == {"OOM"}
    assert "OOM" in client.get(f"/case/{number}").text


def test_long_series_are_thinned_and_keep_their_extremes_and_failures(tmp_path: Path) -> None:
    path = str(tmp_path / "history.db")
    runs = [
        run_of(
            number,
            [
                failed("net")
                if number == 777
                else one_number("net", 500.0 if number == 1234 else 10.0 + number % 7)
            ],
        )
        for number in range(1, 3001)
    ]
    with opened(path) as database:
        recorded(database, *runs)
    with client_of(path) as client:
        (chart,) = json_of(client, "/case/1.json")["charts"]
        table = client.get("/case/1").text
    assert len(chart["points"]) <= 2000
    assert chart["left_out"] == 3000 - len(chart["points"])
    assert 500.0 in [point["value"] for point in chart["points"]]
    assert [point["status"] for point in chart["points"] if point["value"] is None] == ["timeout"]
    assert table.count("<tr>") <= 301


def test_compare_says_what_compare_says(client: TestClient) -> None:
    asked = "/compare.json?a=2026-01-23&b=main"
    view = json_of(client, f"{asked}&all=1")
    rows = {(row["name"], row["metric"]): row for row in view["rows"]}
    slower = rows["BertForMaskedLM (mode inference)", "speedup"]
    assert (slower["verdict"], slower["blocks"], slower["tone"]) == ("regression", True, "worse")
    assert slower["case_id"]
    verdicts = [row["verdict"] for row in view["rows"]]
    assert verdicts.index("regression") < verdicts.index("same")
    assert "missing" in verdicts
    few = json_of(client, asked)
    assert few["calm"] == len(view["rows"]) - len(few["rows"]) > 0


def test_times_of_machines_that_differ_are_compared_only_if_asked_for(client: TestClient) -> None:
    asked = "/compare.json?a=2026-01-02&b=main&case=/^Bert/&metric=speedup"
    held = json_of(client, asked)
    assert held["is_held_back"]
    assert {row["verdict"] for row in held["rows"]} == {"inconclusive"}
    assert any("accelerator driver" in text for text in held["alerts"])
    assert "Compare times and memory anyway" in client.get(asked.replace(".json", "")).text
    anyway = json_of(client, f"{asked}&anyway=1")
    assert {row["verdict"] for row in anyway["rows"]} == {"regression"}


def test_compare_takes_branches_days_and_commits_and_pins_them(client: TestClient) -> None:
    view = json_of(client, "/compare.json?a=2026-01-10&b=main")
    assert view["a"]["when"].startswith("2026-01-10")
    assert len(view["a"]["runs"]) == len(view["b"]["runs"]) == 3
    pinned = json_of(client, f"/compare.json?a={view['a']['pinned']}&b={view['b']['pinned'][:10]}")
    assert pinned["a"]["runs"] == view["a"]["runs"]
    assert pinned["headline"] == view["headline"]


def test_changes_are_a_queue_of_groups_with_regressions_first(client: TestClient) -> None:
    view = json_of(client, "/changes.json")
    directions = [row["direction"] for row in view["rows"]]
    assert directions.index("improvement") >= len([each for each in directions if each != "improvement"])
    slower = next(row for row in view["rows"] if row["name"].startswith("BertForMaskedLM"))
    assert (slower["state"], slower["tone"], slower["cases"]) == ("new", "worse", 2)
    assert json_of(client, "/health.json")["open_changes"] == len(directions) - directions.count(
        "improvement"
    )
    few = json_of(client, "/changes.json?case=resnet50&direction=improvement")["rows"]
    assert [row["worst"].split()[0] for row in few] == ["resnet50"]


def test_a_change_has_members_evidence_and_the_runs_on_both_sides(client: TestClient) -> None:
    rows = json_of(client, "/changes.json?case=/^Bert/")["rows"]
    number = next(row["id"] for row in rows if row["name"].startswith("BertForMaskedLM"))
    view = json_of(client, f"/change/{number}.json")
    metrics = {member["metric"] for member in view["members"]}
    assert {"speedup", "abs_latency"} <= metrics
    assert view["members"][0]["metric"] in metrics
    assert any("torch" in each for each in view["differences"])
    text = client.get(f"/change/{number}").text
    assert f"git bisect start {view['commits'][1][:12]} {view['commits'][0][:12]}" in text
    assert f"compare?a={view['compare'][0]}&amp;b={view['compare'][1]}" in text
    assert "Nobody has decided about it yet" in text
    case = next(member for member in view["members"] if member["metric"] == "speedup")
    chart = json_of(client, f"/case/{case['case_id']}.json?metric=speedup")["charts"][0]
    assert [flag["group"] for flag in chart["changes"]] == [number]
    assert len(chart["levels"]) == 2


def test_closed_groups_are_behind_a_switch_and_decisions_are_listed(tmp_path: Path) -> None:
    path = record_nights(tmp_path)
    with opened(path) as database, client_of(path) as client:
        number = json_of(client, "/changes.json")["rows"][0]["id"]
        before = json_of(client, "/health.json")["open_changes"]
        columns = (
            "id",
            "group_id",
            "state",
            "reason",
            "link",
            "owner",
            "author",
            "at",
            "is_automatic",
            "duplicate_of",
        )
        row = (
            1,
            number,
            "expected",
            "<b>new kernels</b>",
            "javascript:alert(1)",
            "ann",
            "bob",
            "2026-03-01T00:00:00Z",
            0,
            None,
        )
        with database.writing():
            database.insert("triage_events", columns, [row])
        assert number not in [each["id"] for each in json_of(client, "/changes.json")["rows"]]
        assert "Show 1 closed group" in client.get("/changes").text
        assert number in [each["id"] for each in json_of(client, "/changes.json?all=1")["rows"]]
        assert json_of(client, "/health.json")["open_changes"] == before - 1
        text = client.get(f"/change/{number}").text
    assert "&lt;b&gt;new kernels" in text
    assert 'href="javascript' not in text


def test_a_group_is_decided_about_from_its_page(tmp_path: Path) -> None:
    path = record_nights(tmp_path)
    with client_of(path) as client:
        number = json_of(client, "/changes.json")["rows"][0]["id"]
        page = f"/change/{number}"
        assert '<form method="post"' in client.get(page).text
        given = {"state": "expected", "reason": "", "owner": "", "link": "", "of": "", "seen": "0"}
        refused = client.post(page, data=given)
        assert refused.status_code == 400
        assert "needs a reason" in refused.text
        done = client.post(
            page, data=given | {"reason": "new kernels", "owner": "ann"}, follow_redirects=False
        )
        assert (done.status_code, done.headers["location"]) == (303, str(number))
        view = json_of(client, f"{page}.json")
        assert (view["line"]["state"], view["line"]["owner"]) == ("expected", "ann")
        assert [each["reason"] for each in view["decisions"]] == ["new kernels"]
        late = client.post(page, data=given | {"state": "acknowledged", "reason": "mine"})
        assert late.status_code == 409
        assert "was changed meanwhile" in late.text
        assert 'value="mine"' in late.text
        assert len(json_of(client, f"{page}.json")["decisions"]) == 1


def test_decisions_of_other_sites_and_other_bodies_are_refused(tmp_path: Path) -> None:
    path = record_nights(tmp_path)
    with client_of(path) as client:
        number = json_of(client, "/changes.json")["rows"][0]["id"]
        page, given = f"/change/{number}", {"state": "acknowledged", "seen": "0"}
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
        ):
            assert client.post(page, data=given, headers=headers).status_code == 403
        assert client.post(page, json=given).status_code == 415
        assert client.post(page, data=given | {"reason": "x" * 100_000}).status_code == 413
        assert client.post(page, data=given | {"reason": "x" * 3_000}).status_code == 400
        assert client.post(page, data={"state": "acknowledged"}).status_code == 400
        assert client.post("/change/999", data=given).status_code == 404
        assert json_of(client, f"{page}.json")["decisions"] == []
        own = {"Origin": "http://localhost:8321", "Sec-Fetch-Site": "same-origin"}
        assert client.post(page, data=given, headers=own, follow_redirects=False).status_code == 303


def test_machines_show_their_noise(client: TestClient) -> None:
    rows = json_of(client, "/machines.json")["rows"]
    assert [row["name"] for row in rows] == ["NVIDIA H200", "AMD EPYC 9654"]
    noise = {each["metric"]: each for each in rows[0]["noise"]}
    assert 0.001 < noise["abs_latency"]["usual"] < 0.01
    assert noise["abs_latency"]["worst"] >= noise["abs_latency"]["usual"]


def test_the_schema_describes_every_page_and_what_it_says_holds(client: TestClient) -> None:
    schema = json_of(client, "/openapi.json")
    assert len(schema["paths"]) == len(PAGE_KINDS)
    for kind in PAGE_KINDS:
        if not kind.has_name:
            body = client.get(f"/{kind.path or 'health'}.json").content
            msgspec.json.decode(body, type=kind.view)
            required = schema["components"]["schemas"][kind.view.__name__]["required"]
            assert set(required) <= json.loads(body).keys()


def test_pages_below_a_path_work_with_a_proxy_that_strips_it_and_one_that_does_not(history: str) -> None:
    with client_of(history, "/bench") as client:
        for page in ("/bench/runs", "/runs", "/bench/case/1", "/bench/"):
            found = client.get(page)
            assert found.status_code == 200, page
            for target in sorted(links_of(found.text).targets)[:40]:
                place = urljoin(page, target)
                assert place.startswith("/bench") == page.startswith("/bench"), (page, target)
                assert client.get(place).status_code == 200, place


def test_a_page_is_sent_again_only_if_something_was_recorded(tmp_path: Path) -> None:
    path = str(tmp_path / "history.db")
    with opened(path) as database, client_of(path) as client:
        recorded(database, run_of(1))
        first = client.get("/cases")
        tag = {"If-None-Match": first.headers["etag"]}
        assert client.get("/cases", headers=tag).status_code == 304
        recorded(database, run_of(2, [passed("another", times(1.0))]))
        again = client.get("/cases", headers=tag)
        assert again.status_code == 200
        assert "another" in again.text


def test_a_request_for_another_host_is_refused(client: TestClient) -> None:
    found = client.get("/runs", headers={"Host": "evil.example"})
    assert found.status_code == 421
    assert "hugg" not in found.text
    assert client.get("/runs", headers={"Host": "[::1]:8321"}).status_code == 200


HOSTILE = (
    "</script><script>alert(1)</script>",
    "]]>",
    "\u202eevil",
    "<img src=x onerror=alert(1)>",
    "'\"><b>",
    "\x1b[31m",
    "x" * 1_000_000,
)


def test_hostile_names_stay_text_on_every_page(tmp_path: Path) -> None:
    path = str(tmp_path / "history.db")
    with opened(path) as database:
        for number in (1, 2):
            outcomes = [passed(name, times(1.0, seed=number), case=case_of(name)) for name in HOSTILE]
            odd = Case(
                "net", "performance", "</title><script>alert(2)</script>", Variant("<b>", "\u202e", "]]>")
            )
            outcomes.append(failed("bad", message="</script><script>alert(3)</script>"))
            recorded(
                database,
                run_of(
                    number,
                    [*outcomes, passed("net", times(2.0), case=odd)],
                    branch="</option><script>alert(4)</script>",
                ),
            )
    with client_of(path) as client:
        addresses = [
            "/",
            "/cases",
            "/runs",
            "/machines",
            "/compare?a=1&b=2&all=1",
            "/run/1",
            "/cases?case=</script><script>alert(5)</script>",
        ]
        addresses += [f"/case/{number}" for number in range(1, 10)]
        for address in addresses:
            found = client.get(address)
            assert found.status_code == 200, address
            assert "<script>alert" not in found.text, address
            assert "<img" not in found.text, address
            assert "\u202e" not in found.text, address
            if not address.startswith("/run/"):
                assert len(found.text) < 400_000, address


def test_the_store_may_vanish_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with opened(str(path)) as database:
        recorded(database, run_of(1))
    with client_of(str(path)) as client:
        assert client.get("/runs").status_code == 200
        path.rename(tmp_path / "away.db")
        gone = client.get("/runs")
        assert gone.status_code == 503
        assert "there is no store" in gone.text
        assert gone.headers["retry-after"] == "5"
        assert client.get("/runs.json").json()["problem"]
        (tmp_path / "away.db").rename(path)
        assert client.get("/runs").status_code == 200
        path.write_bytes(b"no database")
        assert client.get("/cases").status_code == 503


def test_a_filter_that_excludes_and_a_page_beyond_the_end_count_alike(tmp_path: Path) -> None:
    with opened(str(tmp_path / "history.db")) as database:
        recorded(database, *(run_of(number) for number in range(1, 8)))
        assert count_runs(database, RunFilter("main", excludes="000003")) == 6
        assert [run.id for run in read_run_page(database, RunFilter("main"), 2, 2)] == [5, 4]


def test_threads_that_want_the_same_wait_for_the_one_that_reads_it() -> None:
    memo, reads = Memo(), []

    def read() -> int:
        reads.append(1)
        time.sleep(0.05)
        return len(reads)

    with ThreadPoolExecutor(8) as threads:
        found = [
            each.result() for each in [threads.submit(memo.recall, "state", "key", read) for _ in range(8)]
        ]
    assert found == [1] * 8
    assert memo.recall("another state", "key", read) == 2
    with pytest.raises(KeyError):
        memo.recall("another state", "broken", dict[str, int]().popitem)
    assert memo.recall("another state", "broken", lambda: 7) == 7
