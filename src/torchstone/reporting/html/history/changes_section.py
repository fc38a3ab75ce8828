"""Render the pages of changes: the queue, and one group."""

from __future__ import annotations

import re

from torchstone.core.text.units import count_of
from torchstone.reporting.html.case_details import command
from torchstone.reporting.html.elements import NOTHING, Markup, element, join
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
from torchstone.reporting.views.history.changes_view import (
    ChangeGroupView,
    ChangeQueueView,
    DecisionLine,
    GroupLine,
    MemberLine,
)

_COMMIT = re.compile(r"[0-9a-f]{7,40}\Z")
_WEB = re.compile(r"https?://[^\s\"'<>]+\Z")
_METRIC = re.compile(r"[\w.-]+\Z", re.ASCII)


def render_changes(view: ChangeQueueView, links: PageLinks) -> str:
    """Render the queue."""
    query = view.filters.to_query()
    page = ShellPage("changes", view.title, links, view.bar, json_query=view.filters.to_query(page=view.page))
    header = ("state", "change", "worst", "", "members", "between", "cause", "owner", "first seen")
    rows = [_group(row, links) for row in view.rows]
    table = (
        render_table_of(header, rows, "Groups of changes", numbers={"members"}) if rows else _nothing(view)
    )
    return render_shell(
        page, table, _closed(view, links), render_pages("changes", links, view.page, view.pages, query)
    )


def _nothing(view: ChangeQueueView) -> Markup:
    if view.closed:
        return element("p", "No open changes.", class_="empty")
    why = "No group of changes matches these filters." if view.bar.total else "No changes were found."
    return element("p", why, class_="empty")


def _closed(view: ChangeQueueView, links: PageLinks) -> Markup:
    if not view.closed or links.is_static:
        return NOTHING
    text = f"Show {count_of(view.closed, 'closed group')}"
    return element("p", element("a", text, href=links.to("changes", view.filters.to_query(all="1"))))


def state_badge(state: str, *, is_open: bool, tone: str) -> Markup:
    """Render the state of a group: red if it is an open regression."""
    kind = "skip" if not is_open else "fail" if tone == "worse" else "absent"
    return element("span", state, class_=f"{kind} badge")


def _group(row: GroupLine, links: PageLinks) -> Markup:
    old, new = row.between
    return element(
        "tr",
        element("td", state_badge(row.state, is_open=row.is_open, tone=row.tone)),
        element("th", element("a", short_name(row.name), href=links.to(f"change/{row.id}")), scope="row"),
        element("td", short_name(row.worst)),
        element("td", short_name(row.change, 40), class_=f"number {row.tone}".strip()),
        element("td", f"{row.members:,}", class_="number"),
        element("td", element("code", f"{short_revision(old)}..{short_revision(new)}")),
        element("td", row.cause),
        element("td", short_name(row.owner, 40)),
        element("td", render_time(row.first_seen or row.opened_at)),
    )


def render_group(view: ChangeGroupView, links: PageLinks) -> str:
    """Render the page of one group."""
    line = view.line
    page = ShellPage(f"change/{line.id}", f"{short_name(line.name, 160)}", links)
    return render_shell(
        page,
        element("p", view.problem, class_="alert bad", role="alert") if view.problem else None,
        _facts(view, links),
        _decision_form(view) if not links.is_static else None,
        _evidence(view),
        _commands(view),
        element("h2", f"Members, worst first ({line.members:,})"),
        _members(view, links),
        element("p", f"and {view.left_out:,} more", class_="quiet") if view.left_out else None,
        element("h2", "Decisions"),
        _decisions(view),
    )


def _facts(view: ChangeGroupView, links: PageLinks) -> Markup:
    line = view.line
    old, new = line.between
    facts = {
        "group": str(line.id),
        "worst": f"{line.worst} {line.change}",
        "branch": line.branch,
        "cause": line.cause,
        "owner": line.owner,
        "cases": f"{line.cases:,}",
    }
    items = [
        element("li", element("span", f"{name} ", class_="quiet"), short_name(text))
        for name, text in facts.items()
        if text
    ]
    where = element(
        "li",
        element("span", "between ", class_="quiet"),
        element("code", f"{short_revision(old)}..{short_revision(new)}"),
    )
    link = element("li", _link(view.link)) if view.link else None
    badge = element("li", state_badge(line.state, is_open=line.is_open, tone=line.tone))
    compare = None
    if not links.is_static:
        address = links.to("compare", f"a={view.compare[0]}&b={view.compare[1]}")
        compare = element("li", element("a", "compare both sides", href=address))
    return element("ul", badge, items, where, link, compare, class_="facts")


def _link(text: str) -> Markup:
    """Render a link that a person gave; only one to a web page can be followed."""
    shown = short_name(text)
    return (
        element("a", shown, href=text, rel="noreferrer noopener")
        if _WEB.match(text)
        else element("span", shown)
    )


def _decision_form(view: ChangeGroupView) -> Markup:
    """Render the form for a decision; it says what was seen, so that nobody decides about what has changed meanwhile."""
    state = view.given.get("state", view.line.state)
    options = [element("option", each, value=each, selected=each == state) for each in view.states]
    fields = [
        element(
            "label",
            f"{name} ",
            element("input", name=name, value=view.given.get(name), placeholder=hint, maxlength=2000),
        )
        for name, hint in (
            ("reason", "why; needed for expected"),
            ("owner", "name"),
            ("link", "https://"),
            ("of", "number, for duplicate"),
        )
    ]
    return element(
        "form",
        element("label", "state ", element("select", options, name="state")),
        fields,
        element("input", type="hidden", name="seen", value=str(view.seen)),
        element("button", "Decide", type="submit"),
        method="post",
        class_="filter-bar decision",
        aria_label="Decide about this group",
    )


def _evidence(view: ChangeGroupView) -> Markup:
    items = [element("li", text) for text in (*view.differences, *view.clues)]
    if not items:
        return NOTHING
    return join(element("h2", "What differs between the runs on both sides"), element("ul", items))


def _commands(view: ChangeGroupView) -> Markup:
    """Render the commands that find the cause, in the repository of the code under test."""
    old, new = view.commits
    if not (_COMMIT.match(old) and _COMMIT.match(new)):
        return NOTHING
    return join(
        element("h2", "Find the commit"),
        command(f"git log --oneline {old[:12]}..{new[:12]}"),
        command(f"git bisect start {new[:12]} {old[:12]}"),
    )


def _members(view: ChangeGroupView, links: PageLinks) -> Markup:
    header = (
        "case",
        "metric",
        "machine",
        "before",
        "after",
        "change",
        "certainty",
        "last old",
        "first new",
        "seen",
    )
    rows = [_member(member, links) for member in view.members]
    return render_table_of(
        header, rows, "Members, worst first", numbers={"before", "after", "change", "certainty"}
    )


def _member(member: MemberLine, links: PageLinks) -> Markup:
    query = f"metric={member.metric}" if _METRIC.match(member.metric) and not links.is_static else ""
    name = (
        links.case(member.case_id, short_name(member.name), query)
        if member.case_id
        else short_name(member.name)
    )
    mark = " (gone)" if member.is_vanished else " (provisional)" if member.is_provisional else ""
    return element(
        "tr",
        element("th", name, element("small", mark) if mark else None, scope="row"),
        element("td", short_name(member.metric, 40)),
        element("td", short_name(member.machine, 40)),
        element("td", short_name(member.before, 40), class_="number"),
        element("td", short_name(member.after, 40), class_="number"),
        element("td", short_name(member.change, 40), class_=f"number {member.tone}".strip()),
        element("td", member.certainty, class_="number"),
        element("td", links.run(member.last_old[0], short_revision(member.last_old[1]))),
        element("td", links.run(member.first_new[0], short_revision(member.first_new[1]))),
        element("td", render_time(member.when)),
    )


def _decisions(view: ChangeGroupView) -> Markup:
    if not view.decisions:
        return element("p", "Nobody has decided about it yet.", class_="quiet")
    rows = [_decision(each) for each in view.decisions]
    return render_table_of(
        ("when", "state", "by", "owner", "reason", "link"), rows, "Decisions, newest first"
    )


def _decision(each: DecisionLine) -> Markup:
    return element(
        "tr",
        element("td", render_time(each.at)),
        element("td", each.state),
        element("td", "the data" if each.is_automatic else short_name(each.author, 60)),
        element("td", short_name(each.owner, 60)),
        element("td", short_name(each.reason, 300), class_="why"),
        element("td", _link(each.link) if each.link else None),
    )
