"""Render the pages that are lists: runs, cases, machines."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.core.text.units import count_of
from torchstone.reporting.html.elements import Markup, element, join
from torchstone.reporting.html.history.page_links import PageLinks
from torchstone.reporting.html.history.shell import (
    ShellPage,
    render_pages,
    render_shell,
    render_table_of,
    render_time,
    short_name,
    short_revision,
)
from torchstone.reporting.views.history.cases_view import CaseLine, CasesView
from torchstone.reporting.views.history.machines_view import MachineLine, MachinesView, MetricNoise
from torchstone.reporting.views.history.page_filters import PageFilters
from torchstone.reporting.views.history.runs_view import RunsView, StoredRunLine
from torchstone.store.browsing.run_pages import FilterCount

_MOST_STATUSES = 4


def render_runs(view: RunsView, links: PageLinks) -> str:
    """Render the page of runs."""
    page = ShellPage("runs", view.title, links, view.bar, json_query=view.filters.to_query(page=view.page))
    header = ("run", "measured", "revision", "branch", "torch", "passed", "not passed", "")
    rows = [_run(run, view.rows[at + 1 :], links) for at, run in enumerate(view.rows)]
    table = (
        render_table_of(header, rows, "Runs, newest first", numbers={"passed"})
        if rows
        else _nothing("run", view.filters)
    )
    return render_shell(
        page, table, render_pages("runs", links, view.page, view.pages, view.filters.to_query())
    )


def _nothing(noun: str, filters: PageFilters) -> Markup:
    why = "No " + noun + (" matches these filters." if filters.to_query() else " is in the store yet.")
    advice = "" if filters.to_query() else " Record some: torchstone record FILES"
    return element("p", why, advice, class_="empty")


def _run(run: StoredRunLine, older: Sequence[StoredRunLine], links: PageLinks) -> Markup:
    marks = [
        *([f"trial {run.attempt}"] if run.attempt > 1 else []),
        *([] if run.finished else ["not finished"]),
        *(
            [f"pinned: {short_name(run.pinned)}" if run.pinned else "pinned"]
            if run.pinned is not None
            else []
        ),
    ]
    like = next((each for each in older if each.cases == run.cases and each.revision != run.revision), None)
    compare = None
    if like and not links.is_static:
        where = links.to("compare", f"a={like.id}&b={run.id}")
        compare = element("a", "compare", href=where, title=f"with run {like.id}, {like.when[:10]}")
    return element(
        "tr",
        element("th", links.run(run.id, short_name(run.name, 60)), scope="row"),
        element("td", render_time(run.when), element("small", " recorded") if run.is_recorded_time else None),
        element("td", element("code", short_revision(run.revision), title=run.revision[:200])),
        element("td", short_name(run.branch, 40)),
        element("td", short_name(run.torch, 40)),
        element("td", f"{run.passed:,} of {run.cases:,}", class_="number"),
        element("td", _statuses(run.failed, run.without_outcome)),
        element("td", compare, [element("small", f" {mark}") for mark in marks]),
    )


def _statuses(failed: Sequence[FilterCount], without: int) -> Markup:
    shown = [
        element("span", f"{each.value[:40]} {each.count:,}", class_="fail badge")
        for each in failed[:_MOST_STATUSES]
    ]
    if len(failed) > _MOST_STATUSES:
        shown.append(element("small", f" and {len(failed) - _MOST_STATUSES} other statuses"))
    if without:
        shown.append(element("span", f"no outcome {without:,}", class_="absent badge"))
    return join(*shown, separator=" ")


def render_cases(view: CasesView, links: PageLinks) -> str:
    """Render the page of cases."""
    page = ShellPage("cases", view.title, links, view.bar, json_query=view.filters.to_query(page=view.page))
    machines = len({row.machine for row in view.rows}) > 1
    header = ("status", "case", "suite", *(["machine"] if machines else []), *view.metrics, "newest run")
    rows = [_case(row, view.metrics, links, machines=machines) for row in view.rows]
    table = (
        render_table_of(header, rows, "Cases; those that need a look first", numbers=view.metrics)
        if rows
        else _nothing("case", view.filters)
    )
    return render_shell(
        page, table, render_pages("cases", links, view.page, view.pages, view.filters.to_query())
    )


def status_badge(status: str, *, is_good: bool, is_absent: bool = False) -> Markup:
    """Render a status."""
    kind = "ok" if is_good else "absent" if is_absent else "fail"
    return element("span", status[:60], class_=f"{kind} badge")


def _case(row: CaseLine, metrics: Sequence[str], links: PageLinks, *, machines: bool) -> Markup:
    values = {each.metric: each for each in row.values}
    absent = row.is_missing or row.status == "no outcome"
    return element(
        "tr",
        element("td", status_badge(row.status, is_good=row.is_good, is_absent=absent)),
        element(
            "th", links.case(row.id, short_name(row.name)), element("small", f" {row.probe}"), scope="row"
        ),
        element("td", short_name(row.suite, 40)),
        element("td", short_name(row.machine, 40)) if machines else None,
        [_value(row, values[metric].text if metric in values else "", metric, links) for metric in metrics],
        element(
            "td",
            links.run(row.run_id, short_revision(row.revision)),
            " ",
            render_time(row.when),
            class_="newest",
        ),
    )


def _value(row: CaseLine, text: str, metric: str, links: PageLinks) -> Markup:
    shown = links.case(row.id, text, f"metric={metric}") if text and not links.is_static else text
    return element("td", shown, class_="number")


def render_machines(view: MachinesView, links: PageLinks) -> str:
    """Render the page of machines."""
    page = ShellPage("machines", view.title, links, view.bar)
    explained = element(
        "p",
        "Noise is the standard deviation between the trials of a run, as a share of the value: the median over all series,"
        " and the noisiest one. A metric without several trials has none.",
        class_="quiet",
    )
    header = ("machine", "cases", "series", "newest run", "usual noise", "noisiest series")
    rows = [_machine(row, links) for row in view.rows]
    table = (
        render_table_of(header, rows, "Machines", numbers={"cases", "series"})
        if rows
        else _nothing("machine", view.filters)
    )
    return render_shell(page, explained, table)


def _machine(row: MachineLine, links: PageLinks) -> Markup:
    return element(
        "tr",
        element("th", short_name(row.name) or "(not stated)", scope="row"),
        element("td", f"{row.cases:,}", class_="number"),
        element("td", f"{row.series:,}", class_="number"),
        element(
            "td", links.run(row.newest_run_id, short_name(row.newest_run, 60)), " ", render_time(row.when)
        ),
        element(
            "td",
            element("ul", [_noise(each) for each in row.noise], class_="plain")
            if row.noise
            else "one trial each",
        ),
        element("td", element("ul", [_worst(each, links) for each in row.noise], class_="plain")),
    )


def _noise(each: MetricNoise) -> Markup:
    text = f"{each.metric} {each.text}"
    return element(
        "li", element("strong", text) if each.is_noisy else text, f" ({count_of(each.series, 'case')})"
    )


def _worst(each: MetricNoise, links: PageLinks) -> Markup:
    query = "" if links.is_static else f"metric={each.metric}"
    return element("li", links.case(each.worst_case_id, f"{each.metric} {each.worst_text}", query))
