// Sorting, filtering and folding of the table of cases. Without this script everything is visible as it stands.
"use strict";
document.documentElement.classList.add("js");
document.addEventListener("DOMContentLoaded", () => {
  const table = document.getElementById("cases-table");
  const filters = document.getElementById("filters");
  const find = document.getElementById("find");
  const probe = document.getElementById("probe");
  const shown = document.getElementById("shown");
  const noneFound = document.getElementById("none-found");
  const more = document.getElementById("more");
  const bodies = Array.from(table.tBodies);
  const heads = Array.from(table.tHead.rows[0].cells);
  const many = 500; // rows to lay out at once: with thousands, sorting and filtering would be felt
  let limit = many;
  let order = bodies;
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

  // ---- Opening a row

  const buttonOf = (body) => body.rows[0].cells[0].querySelector("button");

  function setOpen(body, open) {
    body.classList.toggle("open", open);
    buttonOf(body).setAttribute("aria-expanded", String(open));
    if (open) body.querySelectorAll(".command:not(:has(button))").forEach(addCopyButton);
  }

  function addCopyButton(block) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      button.textContent = (await copy(block.querySelector("pre"))) ? "Copied" : "Press Ctrl+C";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    block.append(button);
  }

  async function copy(source) {
    try {
      await navigator.clipboard.writeText(source.textContent);
      return true;
    } catch {
      const range = document.createRange();
      range.selectNodeContents(source);
      const selection = getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      return document.execCommand("copy");
    }
  }

  for (const body of bodies) buttonOf(body).setAttribute("aria-expanded", "false");

  table.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    const body = row && row.parentElement;
    if (!body || body.tagName !== "TBODY" || body.parentElement !== table || row !== body.rows[0]) return;
    if (event.target.closest("a") || (!event.target.closest("button") && String(getSelection()))) return;
    setOpen(body, !body.classList.contains("open"));
  });

  // ---- Filtering

  const searched = new Map();

  function textOf(body) {
    let text = searched.get(body);
    if (text === undefined) {
      const parts = [body.rows[0], ...body.querySelectorAll(".id, .found")];
      text = parts.map((part) => part.textContent).join(" ").toLowerCase();
      searched.set(body, text);
    }
    return text;
  }

  const ticked = (name) => new Set(
    Array.from(filters.querySelectorAll(`input[name=${name}]:checked`), (box) => box.value));

  function filter() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const statuses = ticked("status"), verdicts = ticked("gate");
    const wanted = probe ? probe.value : "";
    let count = 0;
    for (const body of order) {
      const { status, gate } = body.dataset;
      const keep = (!statuses.size || statuses.has(status)) && (!verdicts.size || verdicts.has(gate))
        && (!wanted || body.dataset.probe === wanted) && words.every((word) => textOf(body).includes(word));
      count += keep;
      const hide = !keep || count > limit;
      if (body.hidden !== hide) body.hidden = hide;
    }
    const text = (number) => number.toLocaleString("en");
    const all = `${text(bodies.length)} ${bodies.length === 1 ? "case" : "cases"}`;
    shown.textContent = (count === bodies.length ? all : `${text(count)} of ${all}`)
      + (count > limit ? `, the first ${text(limit)} shown` : " shown");
    noneFound.hidden = count > 0;
    more.hidden = count <= limit;
  }

  more.addEventListener("click", () => {
    const next = order.find((body) => body.hidden);
    limit = Infinity;
    filter();
    if (next) buttonOf(next).focus();
  });
  let waiting = 0;
  filters.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(filter, 80);
  });
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("reset", () => setTimeout(filter));

  // ---- Sorting

  const statusRank = new Map(
    Array.from(filters.querySelectorAll("input[name=status]"), (box, rank) => [box.value, rank]));

  function keyOf(body, column) {
    const cell = body.rows[0].cells[column];
    if (heads[column].classList.contains("number")) {
      const number = parseFloat(cell.textContent.replace(/,/g, ""));
      return Number.isNaN(number) ? null : number;
    }
    const rank = cell.querySelector(".badge") && statusRank.get(body.dataset.status);
    return rank !== undefined && rank !== null && heads[column].textContent === "Status" ? rank : cell.textContent;
  }

  function compare(one, other) {
    if (one === null || other === null) return 0;
    return typeof one === "number" ? one - other : collator.compare(one, other);
  }

  function sortBy(column) {
    const head = heads[column];
    const next = { none: "ascending", ascending: "descending", descending: "none" }[head.getAttribute("aria-sort")];
    for (const other of heads) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", next);
    order = bodies;
    if (next !== "none") {
      const sign = next === "ascending" ? 1 : -1;
      const keyed = bodies.map((body) => ({ body, key: keyOf(body, column) }));
      keyed.sort((a, b) => (a.key === null) - (b.key === null) || sign * compare(a.key, b.key));
      order = keyed.map((entry) => entry.body);
    }
    for (const body of bodies) body.hidden = true; // laid out once, when all are in their places
    table.append(...order);
    filter();
  }

  heads.forEach((head, column) => {
    head.setAttribute("aria-sort", "none");
    head.querySelector("button").addEventListener("click", () => sortBy(column));
  });

  // ---- A table that fits needs no scrolling of its own, and its head can stay in sight

  const fit = () => table.parentElement.classList.toggle("fits", table.offsetWidth <= table.parentElement.clientWidth);
  new ResizeObserver(fit).observe(table);

  // ---- Links to a row: by its id in the page, or by the id of the case

  function openLinked() {
    let wanted = location.hash.slice(1);
    if (!wanted) return;
    try { wanted = decodeURIComponent(wanted); } catch { /* as it stands */ }
    const body = bodies.find((one) => one.id === wanted)
      || bodies.find((one) => one.querySelector(".id").textContent === wanted);
    if (!body) return;
    if (body.hidden) {
      filters.reset();
      filter();
      body.hidden = false;
    }
    setOpen(body, true);
    buttonOf(body).focus({ preventScroll: true });
    body.scrollIntoView({ block: "start" });
  }

  addEventListener("hashchange", openLinked);
  // A link to the row that is linked already changes no hash.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) openLinked();
  });
  filter();
  openLinked();
  addEventListener("load", openLinked); // again: the browser's own jump to the row takes the focus away
});
