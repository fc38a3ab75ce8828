// Flame graphs: what a frame cost, a closer look at it, and finding frames by name. Without this script they are pictures.
"use strict";
document.documentElement.classList.add("js");
document.addEventListener("DOMContentLoaded", () => {
  const ready = new Map();
  // Called when a graph comes into sight for the first time (it may be folded away), and when its width changes.
  const watch = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      if (!contentRect.width) continue;
      if (!ready.has(target)) ready.set(target, prepare(target));
      ready.get(target)();
    }
  });
  for (const box of document.querySelectorAll(".flame > .frames")) watch.observe(box);

  function prepare(box) {
    const flame = box.parentElement;
    const picture = box.firstElementChild;
    const status = flame.querySelector(".frame-status");
    const find = flame.querySelector("input");
    const reset = flame.querySelector("button");
    const { unit } = flame.dataset;
    const plain = "plain" in flame.dataset;
    const hint = status.textContent;
    const frames = readFrames(picture);
    const at = new Map(frames.map((frame, index) => [frame.node, index]));
    const whole = frames[0].now;
    let near = 0; // the frame that is looked at closely
    let active = -1; // the frame that the arrow keys are at
    let hits = 0;

    const number = (value) => Number.isInteger(value) ? value.toLocaleString("en") : String(+value.toPrecision(4));
    const share = (part, of) => `${(100 * part / of).toFixed(1)}%`;

    function describe(frame) {
      const of = whole ? `; ${share(frame.now, whole)} of all` : "";
      if (plain) return `${number(frame.now)} ${unit}${of}`;
      const change = frame.now - frame.base;
      if (!change) return `${number(frame.now)} ${unit}, unchanged${of}`;
      const sign = change > 0 ? "+" : "\u2212";
      const size = Math.abs(change);
      const relative = frame.base ? ` (${sign}${share(size, frame.base)})` : " (new)";
      return `${number(frame.now)} ${unit}, was ${number(frame.base)}: ${sign}${number(size)}${relative}${of}`;
    }

    function tell(index) {
      if (index < 0) {
        status.textContent = find.value.trim() ? tellHits() : hint;
        return;
      }
      const name = document.createElement("b");
      name.textContent = frames[index].name;
      status.replaceChildren(name, ` ${describe(frames[index])}`);
    }

    function isInSight(index) {
      return index <= near ? frames[index].end > near : index < frames[near].end;
    }

    function draw() {
      const { left, width } = frames[near];
      const pixels = picture.getBoundingClientRect().width / 100;
      frames.forEach((frame, index) => {
        const shown = isInSight(index);
        const above = index < near;
        frame.node.toggleAttribute("hidden", !shown);
        if (!shown) return;
        const wide = above ? 100 : 100 * frame.width / width;
        frame.node.setAttribute("x", above ? "0%" : `${100 * (frame.left - left) / width}%`);
        frame.node.setAttribute("width", `${wide}%`);
        frame.node.classList.toggle("tiny", wide * pixels < 32);
        frame.node.classList.toggle("above", above);
      });
      reset.disabled = near === 0;
    }

    function lookAt(index) {
      near = index;
      draw();
      tell(index || active);
    }

    function moveTo(index) {
      if (active >= 0) frames[active].node.classList.remove("at");
      active = index;
      if (active < 0) return;
      frames[active].node.classList.add("at");
      frames[active].node.scrollIntoView({ block: "nearest", inline: "nearest" });
      tell(active);
    }

    function beside(index, step) {
      const { depth, parent } = frames[index];
      for (let other = index + step; other > parent && other < frames.length; other += step) {
        if (frames[other].depth < depth) break;
        if (frames[other].depth === depth && isInSight(other)) return other;
      }
      return index;
    }

    const moves = {
      ArrowDown: (index) => index + 1 < frames[index].end ? index + 1 : index,
      ArrowUp: (index) => Math.max(frames[index].parent, 0),
      ArrowLeft: (index) => beside(index, -1),
      ArrowRight: (index) => beside(index, 1),
      Home: () => 0,
    };

    box.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.key in moves) moveTo(active < 0 ? near : moves[event.key](active));
      else if ((event.key === "Enter" || event.key === " ") && active >= 0) lookAt(active);
      else if (event.key === "Escape") lookAt(0);
      else return;
      event.preventDefault();
    });
    box.addEventListener("focus", () => { if (active < 0 && box.matches(":focus-visible")) moveTo(near); });
    box.addEventListener("click", (event) => {
      const index = at.get(event.target.closest(".frames svg svg"));
      if (index === undefined) return;
      moveTo(index);
      lookAt(index);
    });
    box.addEventListener("pointerover", (event) => {
      const index = at.get(event.target.closest(".frames svg svg"));
      if (index !== undefined) tell(index);
    });
    box.addEventListener("pointerleave", () => tell(active));
    reset.addEventListener("click", () => {
      moveTo(-1);
      lookAt(0);
      box.focus();
    });

    function search() {
      const wanted = find.value.trim().toLowerCase();
      hits = 0;
      for (const frame of frames) {
        frame.hit = wanted !== "" && frame.name.toLowerCase().includes(wanted);
        frame.node.classList.toggle("hit", frame.hit);
        hits += frame.hit;
      }
      box.classList.toggle("searching", wanted !== "");
      moveTo(-1);
      tell(-1);
    }

    function tellHits() {
      let covered = 0;
      for (let index = 0; index < frames.length; index = frames[index].hit ? frames[index].end : index + 1) {
        if (frames[index].hit) covered += frames[index].now;
      }
      const part = hits && whole ? `, ${share(covered, whole)} of all` : "";
      return `${hits.toLocaleString("en")} ${hits === 1 ? "frame matches" : "frames match"}${part}`;
    }

    let waiting = 0;
    find.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(search, 80);
    });
    box.setAttribute("role", "application"); // arrow keys are for this, not for a screen reader
    return draw;
  }

  // The frames in the order in which they stand: each before what it calls. `end` is where what it calls ends.
  function readFrames(picture) {
    const nodes = Array.from(picture.children);
    const frames = [];
    const open = [];
    nodes.forEach((node, index) => {
      const depth = parseFloat(node.getAttribute("y"));
      while (open.length && frames[open.at(-1)].depth >= depth) frames[open.pop()].end = index;
      frames.push({
        node, depth, name: node.lastElementChild.firstChild.data, base: Number(node.dataset.base), now: Number(node.dataset.new),
        left: parseFloat(node.getAttribute("x")), width: parseFloat(node.getAttribute("width")),
        parent: open.length ? open.at(-1) : -1, end: nodes.length, hit: false,
      });
      open.push(index);
    });
    for (const index of open) frames[index].end = nodes.length;
    return frames;
  }
});
