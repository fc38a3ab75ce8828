// Draws the history of a case with uPlot in place of the picture: zoom, the values under the cursor, and what a click opens.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const shared = uPlot.sync("history");
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const plots = Array.from(document.querySelectorAll("script.chart-data"), (block) => draw(block, JSON.parse(block.textContent)));
  const redraw = () => plots.forEach((each) => { if (each) each.redraw(false); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  function draw(block, data) {
    const box = block.parentElement;
    const chart = data;
    const size0 = data.when.length;
    if (!data.value.some((value) => value !== null)) return null;
    const times = data.when.map((when) => Date.parse(when.length === 16 ? `${when}Z` : when) / 1000);
    const xs = data.by_time ? times : data.when.map((_, at) => at);
    const ratio = devicePixelRatio || 1;
    const lane = 8;
    const statusOf = (at) => data.statuses[data.status[at]];
    const isGap = (at) => statusOf(at) === "gap";

    const tight = ["x", "%", "status", ""].includes(chart.unit) ? chart.unit.replace("status", "") : ` ${chart.unit}`;
    const text = (at) => {
      if (at >= size0 || isGap(at)) return "no data";
      const number = data.value[at];
      const value = number === null ? statusOf(at) || "no outcome" : `${+number.toPrecision(5)}${tight}`;
      const change = chart.changes.filter((flag) => flag.at === at).map((flag) => flag.text);
      const marks = chart.environments.filter((mark) => mark.at === at).map((mark) => mark.text);
      const noise = data.spread[at] === null ? "" : `, noise ${(100 * data.spread[at]).toPrecision(2)}%`;
      return [`${value}${noise}`, `${data.when[at].replace("T", " ")}  ${data.revision[at]}`, data.torches[data.torch[at]], ...change, ...marks]
        .filter(Boolean).join("\n");
    };

    const x = (plot, at) => plot.valToPos(at, "x", true);
    const between = (plot, at) => (at > 0 ? (x(plot, xs[at - 1]) + x(plot, xs[at])) / 2 : x(plot, xs[at]));
    function clip(plot, extra) {
      const { left, top, width, height } = plot.bbox;
      plot.ctx.beginPath();
      plot.ctx.rect(left, top, width, height + extra);
      plot.ctx.clip();
    }
    function behind(plot) {
      const { ctx, bbox } = plot;
      ctx.save();
      clip(plot, 0);
      ctx.lineWidth = ratio;
      for (const [marks, name, dash] of [[chart.environments, "--one", [2, 3]], [chart.changes, "", []]]) {
        ctx.setLineDash(dash.map((each) => each * ratio));
        for (const mark of marks) {
          ctx.strokeStyle = color(name || (mark.direction === "improvement" ? "--ok" : mark.direction === "regression" ? "--fail" : "--one"));
          const place = between(plot, mark.at);
          ctx.beginPath();
          ctx.moveTo(place, bbox.top);
          ctx.lineTo(place, bbox.top + bbox.height);
          ctx.stroke();
        }
      }
      ctx.setLineDash([]);
      ctx.fillStyle = color("--bar");
      ctx.globalAlpha = 0.22;
      for (const [at, value] of chart.samples) {
        ctx.beginPath();
        ctx.arc(x(plot, xs[at]), plot.valToPos(value, "y", true), 2 * ratio, 0, 2 * Math.PI);
        ctx.fill();
      }
      ctx.restore();
    }
    function above(plot) {
      const { ctx, bbox } = plot;
      ctx.save();
      clip(plot, 14 * ratio);
      ctx.strokeStyle = color("--text");
      ctx.lineWidth = 1.6 * ratio;
      ctx.setLineDash([5 * ratio, 3 * ratio]);
      for (const level of chart.levels) {
        const y = plot.valToPos(level.value, "y", true);
        ctx.beginPath();
        ctx.moveTo(between(plot, level.first), y);
        ctx.lineTo(x(plot, xs[level.last]), y);
        ctx.stroke();
      }
      ctx.setLineDash([]);
      const top = bbox.top + bbox.height + 3 * ratio;
      data.status.forEach((status, at) => {
        if (isGap(at)) return;
        const left = between(plot, at);
        const right = at + 1 < size0 ? between(plot, at + 1) : x(plot, xs[at]) + 2 * ratio;
        ctx.fillStyle = color(data.good[status] ? "--ok" : data.statuses[status] ? "--fail" : "--absent");
        ctx.fillRect(left, top, Math.max(right - left, ratio), lane * ratio);
      });
      ctx.restore();
    }

    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    function follow(plot) {
      const { idx, left, top } = plot.cursor;
      tip.hidden = idx === null || idx === undefined || left < 0;
      if (tip.hidden) return;
      tip.textContent = text(idx);
      const room = box.clientWidth - tip.offsetWidth - 8;
      tip.style.left = `${Math.max(0, Math.min(plot.over.offsetLeft + left + 14, room))}px`;
      tip.style.top = `${plot.over.offsetTop + Math.max(0, top - tip.offsetHeight - 10)}px`;
    }

    let shift = false;
    function select(plot) {
      if (!shift || plot.select.width < 5) return;
      const ends = [plot.select.left, plot.select.left + plot.select.width].map((place) => plot.posToIdx(place));
      plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      const [a, b] = ends.map((at) => data.run[at]);
      if (data.compare && a && b && a !== b) location.href = `${data.compare}?a=${a}&b=${b}`;
    }

    const label = (at) => {
      const when = data.by_time ? new Date(at * 1000).toISOString() : data.when[Math.round(at)] || "";
      return when.slice(0, 10);
    };
    const axis = { stroke: () => color("--quiet"), grid: { stroke: () => color("--faint"), width: 1 }, ticks: { show: false } };
    const size = () => ({ width: box.clientWidth, height: 320 });
    const picture = box.querySelector("svg");
    const plot = new uPlot({
      ...size(),
      legend: { show: false },
      cursor: {
        sync: { key: shared.key, setSeries: false },
        focus: { prox: 30 },
        drag: { x: true, y: false },
        bind: {
          mousedown: (_plot, _target, next) => (event) => { shift = event.shiftKey; return next(event); },
        },
      },
      scales: { x: { time: false } },
      axes: [
        { ...axis, gap: 16, size: 44, space: 90, values: (_plot, ticks) => ticks.map(label), incrs: data.by_time ? [86400, 604800, 2592000, 7776000, 31536000] : [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] },
        { ...axis, size: 64, values: (_plot, ticks) => ticks.map((each) => `${+each.toPrecision(6)}${tight}`) },
      ],
      series: [{}, {
        label: chart.metric, stroke: () => color("--bar"), width: 1.4, spanGaps: false,
        points: { show: true, size: 5, fill: () => color("--bar") },
      }],
      hooks: { drawAxes: [behind], draw: [above], setCursor: [follow], setSelect: [select] },
    }, [xs, data.value], box);
    picture.remove();
    box.append(tip);
    let down = 0;
    plot.over.addEventListener("mousedown", (event) => { down = event.clientX; });
    plot.over.addEventListener("click", (event) => {
      const run = data.run[plot.cursor.idx];
      if (Math.abs(event.clientX - down) < 4 && run) location.href = data.run_page.replace("run/0", `run/${run}`);
    });
    plot.over.addEventListener("mouseleave", () => { tip.hidden = true; });
    new ResizeObserver(() => { if (plot.width !== box.clientWidth) plot.setSize(size()); }).observe(box);
    return plot;
  }
});
