// What makes the pages quicker to use: keys, filters that apply at once, times as "3 h ago", copy buttons. All pages read without it.
"use strict";
document.documentElement.classList.add("js");
document.addEventListener("DOMContentLoaded", () => {
  // ---- Times

  const ago = (seconds) => {
    const units = [["d", 86400], ["h", 3600], ["min", 60]];
    for (const [name, size] of units) if (seconds >= size) return `${Math.floor(seconds / size)} ${name} ago`;
    return "just now";
  };
  for (const time of document.querySelectorAll("time[datetime]")) {
    const then = Date.parse(time.dateTime);
    if (Number.isNaN(then)) continue;
    const age = (Date.now() - then) / 1000;
    time.title = `${time.dateTime}${age > 0 ? `, ${ago(age)}` : ""}`;
    if (time.classList.contains("age") && age > 0) time.textContent = ago(age);
  }

  // ---- Filters

  const bar = document.querySelector("form.filter-bar:not(.decision)");
  if (bar) {
    bar.addEventListener("submit", () => {
      for (const field of bar.elements) if (field.name && !field.value) field.disabled = true;
    });
    addEventListener("pageshow", () => { for (const field of bar.elements) field.disabled = false; });
    bar.addEventListener("change", (event) => {
      if (event.target.tagName === "SELECT") bar.requestSubmit();
    });
  }
  const find = document.querySelector("[data-find]");
  if (find) {
    const counted = document.querySelector(".counted");
    const before = counted ? counted.textContent : "";
    const lines = Array.from(document.querySelectorAll("table.rows tbody tr"), (row) => [row, row.textContent.toLowerCase()]);
    find.addEventListener("input", () => {
      const text = find.value.trim().toLowerCase();
      let shown = 0;
      for (const [row, content] of lines) {
        row.hidden = !content.includes(text);
        shown += row.hidden ? 0 : 1;
      }
      if (counted) counted.textContent = text ? `${shown} of the rows shown` : before;
    });
  }

  // ---- Copy buttons

  for (const block of document.querySelectorAll(".command")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", () => copy(block, button));
    block.append(button);
  }
  async function copy(block, button) {
    const text = block.querySelector("pre").textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(block.querySelector("pre"));
      button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }

  // ---- Keys

  const rows = () => Array.from(document.querySelectorAll("table.rows tbody tr")).filter((row) => !row.hidden);
  let at = -1;
  function go(step) {
    const all = rows();
    if (!all.length) return;
    if (all[at]) all[at].classList.remove("here");
    at = Math.min(Math.max(at + step, 0), all.length - 1);
    all[at].classList.add("here");
    all[at].scrollIntoView({ block: "nearest" });
  }
  function open() {
    const row = rows()[at];
    const link = row && row.querySelector("th a, td a");
    if (link) location.href = link.href;
  }
  const help = document.createElement("dialog");
  const words = [["/", "to the filter"], ["j k", "next or previous row"], ["Enter", "open the row"],
    ["y", "copy the command to reproduce"], ["a e f", "acknowledge a change; expected; fixed"], ["h", "Health"], ["g", "Changes"], ["c", "Cases"], ["r", "Runs"], ["m", "Machines"], ["?", "these keys"]];
  const title = document.createElement("h2");
  title.textContent = "Keys";
  help.append(title);
  for (const [key, meaning] of words) {
    const line = document.createElement("p");
    const name = document.createElement("kbd");
    name.textContent = key;
    line.append(name, ` ${meaning}`);
    help.append(line);
  }
  const close = document.createElement("form");
  close.method = "dialog";
  const button = document.createElement("button");
  button.textContent = "Close";
  close.append(button);
  help.append(close);
  document.body.append(help);
  function decide(state) {
    const form = document.querySelector("form.decision");
    if (!form) return;
    form.elements.state.value = state;
    if (state === "expected" && !form.elements.reason.value) form.elements.reason.focus();
    else form.requestSubmit();
  }
  const pages = { h: 0, g: 1, c: 2, r: 4, m: 5 };
  const actions = {
    "/": () => { const field = document.querySelector(".filter-bar input[type=search]"); if (field) field.focus(); },
    j: () => go(1),
    k: () => go(-1),
    Enter: open,
    y: () => { const first = document.querySelector(".command button"); if (first) first.click(); },
    "?": () => help.showModal(),
    a: () => decide("acknowledged"),
    e: () => decide("expected"),
    f: () => decide("fixed"),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.closest("input, select, textarea, button, a, [contenteditable]")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const link = event.key in pages && document.querySelectorAll("header nav a")[pages[event.key]];
    if (link) location.href = link.href;
    else if (event.key in actions) { event.preventDefault(); actions[event.key](); }
  });
});
