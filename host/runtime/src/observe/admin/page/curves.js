// Curves of the samples that this page has, as SVG.

const [CURVE_WIDTH, CURVE_HEIGHT] = [300, 56];
/** The shortest time that a curve shows, in seconds. */
const SHORTEST_SPAN = 60;

/** A curve of `lines`. Each line has a name and a function `of`, which reads a number from a sample. */
function curve({ title, text, lines, least = 1 }) {
  const paths = lines.map((_, index) => svg("path", { class: `line line-${index}` }));
  const areas = lines.map((_, index) => svg("path", { class: `area area-${index}` }));
  const cursor = svg("path", { class: "cursor" });
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${CURVE_WIDTH} ${CURVE_HEIGHT}`, preserveAspectRatio: "none", role: "img" },
    svg("path", { class: "grid", d: `M0 ${CURVE_HEIGHT / 2}H${CURVE_WIDTH}M0 .5H${CURVE_WIDTH}` }),
    areas, paths, cursor,
  );
  const values = lines.map(() => el("b", {}));
  const legend = el("ul", {}, lines.map((line, index) => el("li", { class: `key-${index}` }, `${line.name} `, values[index])));
  const [top, since, until] = [el("span", { class: "most" }), el("span", {}), el("span", {}, "now")];
  const node = el("figure", { class: "curve" },
    el("figcaption", {}, el("strong", {}, title), legend),
    el("div", { class: "plot" }, picture, top),
    el("div", { class: "axis", "aria-hidden": "true" }, since, until));
  let [pointed, drawn] = [null, null];
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    pointed = (event.clientX - box.left) / box.width;
    if (drawn) draw(...drawn);
  });
  picture.addEventListener("pointerleave", () => {
    pointed = null;
    if (drawn) draw(...drawn);
  });

  function draw(samples, now) {
    drawn = [samples, now];
    const begin = Math.min(Math.max(samples[0]?.t ?? now, now - SAMPLE_SPAN), now - SHORTEST_SPAN);
    const seen = samples.filter((it, index) => it.t >= begin || (samples[index + 1]?.t ?? now) >= begin);
    const most = Math.max(least, ...seen.flatMap((it) => lines.map((line) => (it.gap ? 0 : line.of(it) ?? 0))));
    const x = (t) => (((Math.max(t, begin) - begin) / (now - begin)) * CURVE_WIDTH).toFixed(1);
    const y = (value) => (CURVE_HEIGHT - 1 - (value / most) * (CURVE_HEIGHT - 3)).toFixed(1);
    lines.forEach((line, index) => {
      const [d, area] = path(seen, now, line.of, x, y);
      paths[index].setAttribute("d", d);
      areas[index].setAttribute("d", index === 0 ? area : "");
    });
    setText(top, text(most));
    setText(since, `${time(now - begin).replace(/\..*s/, "s").replace(/m0s$/, "m")} ago`);
    const at = pointed === null ? now : begin + pointed * (now - begin);
    const current = seen.findLast((it) => it.t <= at && !it.gap) ?? null;
    lines.forEach((line, index) => setText(values[index], current ? text(line.of(current)) : "–"));
    setText(until, pointed === null ? "now" : `at ${ago(now - at)}`);
    cursor.setAttribute("d", pointed === null ? "" : `M${x(at)} 0V${CURVE_HEIGHT}`);
    picture.setAttribute("aria-label", `${title}: ${lines.map((line, index) => `${line.name} ${values[index].textContent}`).join(", ")}, at most ${text(most)}`);
  }

  return { node, draw };
}

/** The line through the samples, with gaps where samples are missing, and the area below the line. */
function path(samples, now, of, x, y) {
  const runs = [[]];
  for (const it of samples) {
    const value = it.gap ? null : of(it);
    if (value === null) runs.push([]);
    else runs.at(-1).push([it.t, value]);
  }
  const last = samples.at(-1);
  if (last && runs.at(-1).length > 0 && now > last.t) runs.at(-1).push([now, runs.at(-1).at(-1)[1]]);
  const drawn = runs.filter((run) => run.length > 0);
  const line = (run) => run.map(([t, value]) => `${x(t)} ${y(value)}`).join("L");
  return [
    drawn.map((run) => `M${line(run)}${run.length === 1 ? "h.1" : ""}`).join(""),
    drawn.map((run) => `M${x(run[0][0])} ${CURVE_HEIGHT}L${line(run)}V${CURVE_HEIGHT}Z`).join(""),
  ];
}

/** The curves of the host, or of one plugin. */
function curves() {
  const all = [
    curve({ title: "Keys", text: count, lines: [{ name: "queued", of: (it) => it.queue }, { name: "failing", of: (it) => it.failing }] }),
    curve({ title: "Latency", text: time, least: 0.001, lines: [{ name: "call", of: (it) => it.call }, { name: "in queue", of: (it) => it.wait }] }),
    curve({ title: "Per second", text: rate, lines: [{ name: "calls", of: (it) => it.callRate }, { name: "writes", of: (it) => it.writeRate }] }),
    curve({ title: "Processor", text: percent, least: 0.01, lines: [{ name: "of one", of: (it) => it.cpu }] }),
  ];
  const node = el("div", { class: "curves" }, all.map((it) => it.node));
  return { node, draw: (samples) => all.forEach((it) => it.draw(samples, clock())) };
}
