// The first page: a line for each plugin, the curves of all plugins, and recent failures.

/** The choices on the first page. They are kept while another page is shown. */
const chosen = { search: "", onlyUnwell: false, sort: { by: "state", down: false } };
/** The most rows that are shown at a time. */
const PLUGIN_ROWS = 200;
const FAILURE_ROWS = 12;

function leaseWord({ lease }) {
  if (!lease) return "–";
  if (lease.heldHere) return "held";
  if (lease.status === "lost") return "lost";
  return lease.holder ? "elsewhere" : "free";
}

/** A column of numbers. Narrow windows leave out the columns that are `slim` or `mid`. */
const number = (id, title, of, text, help, width = "") =>
  ({ id, title, help, class: `number ${width}`, number: true, text: (it) => text(of(it)), order: of });

const PLUGIN_COLUMNS = [
  {
    id: "name", title: "Plugin", heads: true, text: ({ shown }) => `${shown.name} ${shown.why ?? ""}`, order: ({ shown }) => shown.name,
    node: ({ shown }) => [el("a", { href: `#/${linkTo(shown.name)}` }, shown.name), shown.why && el("p", { class: "why" }, shown.why)],
  },
  {
    id: "state", title: "State", text: ({ shown }) => `${shown.state} ${shown.well}`,
    order: ({ shown }) => `${shown.well ? 1 : 0}${["bad", "warn", "idle", "ok"].indexOf(toneOf(shown.state, shown.well))}`,
    node: ({ shown }) => badge(shown.state, shown.well),
  },
  { id: "version", title: "Version", class: "wide code", text: ({ shown }) => shown.version ?? "–" },
  { id: "digest", title: "Digest", class: "wide code", text: ({ shown }) => shown.digest ?? "–", help: "The beginning of the digest of the file that runs" },
  { id: "lease", title: "Lease", class: "wide", text: ({ shown }) => leaseWord(shown), help: "Which replica may run it" },
  {
    id: "breaker", title: "Breaker", class: "wide", text: ({ shown }) => words(shown.breaker ?? "–"),
    node: ({ shown }) => (shown.breaker && shown.breaker !== "closed" ? badge(shown.breaker) : words(shown.breaker ?? "–")),
  },
  number("queue", "Queue", ({ shown }) => shown.queue, count, "Keys that wait for a worker"),
  number("failing", "Failing", ({ shown }) => shown.failing, count, "Keys whose last call failed"),
  number("paused", "Paused", ({ shown }) => shown.paused, count, "Keys whose object is paused", "mid"),
  number("cpu", "CPU", ({ sample }) => sample.cpu ?? 0, percent, "Of one processor, in the last second", "slim"),
  number("latency", "Call", ({ sample }) => sample.call ?? -1, time, "How long calls took on average, in the last second", "slim"),
  number("memory", "Memory", ({ shown }) => shown.memoryBytes, size, "Memory of its calls and its parked instances", "slim"),
  number("cache", "Cache", ({ shown }) => shown.cacheBytes, size, "A cache that several plugins read counts for each", "mid"),
  number("writes", "Writes", ({ shown }) => shown.writes, count, "Writes that the API server has carried out", "mid"),
  number("denied", "Denied", ({ shown }) => shown.denied, count, "Requests that were not granted", "mid"),
];

const FAILURE_COLUMNS = [
  { title: "When", class: "number", text: (it) => ago(hostNow() - it.at) },
  { title: "Plugin", class: "slim", text: (it) => it.plugin, node: (it) => el("a", { href: `#/${linkTo(it.plugin)}` }, it.plugin) },
  { title: "Key", text: (it) => it.key, node: (it) => el("a", { href: `#/${linkTo(it.plugin, it.key)}` }, it.key) },
  { title: "Error", class: "text", text: (it) => it.error, node: (it) => clipped(it.error) },
];

function overview() {
  const tiles = new Map();
  const tile = (name, help) => {
    const value = el("dd", {}, "–");
    tiles.set(name, value);
    return el("div", { title: help }, el("dt", {}, name), value);
  };
  const summary = el("dl", { class: "tiles" },
    tile("Plugins"), tile("Need attention"), tile("Queued", "Keys that wait for a worker"), tile("Failing", "Keys whose last call failed"),
    tile("Calls/s"), tile("Writes/s", "Writes that the API server has carried out"), tile("CPU", "Of one processor"),
    tile("Memory", "Memory of calls and parked instances"));
  const drawn = curves();
  const list = table({
    caption: "Plugins", columns: PLUGIN_COLUMNS, key: ({ shown }) => shown.name, sort: chosen.sort, page: PLUGIN_ROWS,
    empty: () => (model.plugins.size === 0 ? nothingYet() : "No plugin matches."),
  });
  const failures = table({
    caption: "Recent failures", columns: FAILURE_COLUMNS, key: (it) => `${it.plugin} ${it.controller} ${it.key}`,
    empty: () => "No key fails, as far as this host remembers.",
  });
  const matching = el("span", { class: "matching", role: "status" });
  const search = searchField("Search plugins", chosen.search, (text) => {
    chosen.search = text;
    redraw();
  });
  const unwell = el("input", { type: "checkbox", checked: chosen.onlyUnwell, on: { change: () => { chosen.onlyUnwell = unwell.checked; redraw(); } } });
  const node = el("div", {},
    el("h1", { tabindex: "-1" }, "Plugins"),
    el("p", { class: "notice warn", id: "notes", hidden: true }),
    summary, drawn.node,
    el("div", { class: "tools" }, search, el("label", {}, unwell, " Only those that need attention"), matching),
    list.node,
    section("Recent failures", failures.node));

  function redraw() {
    const all = [...model.plugins.values()];
    const sum = (of) => all.reduce((total, it) => total + (of(it) ?? 0), 0);
    const bad = all.filter(({ shown }) => !shown.well).length;
    const now = model.samples.findLast((it) => !it.gap);
    const figures = {
      Plugins: count(all.length), "Need attention": count(bad),
      Queued: count(sum((it) => it.shown.queue)), Failing: count(sum((it) => it.shown.failing)),
      "Calls/s": rate(now?.callRate ?? NaN), "Writes/s": rate(now?.writeRate ?? NaN), CPU: percent(now?.cpu ?? NaN),
      Memory: size(sum((it) => it.shown.memoryBytes)),
    };
    for (const [name, text] of Object.entries(figures)) setText(tiles.get(name), text);
    tiles.get("Need attention").className = bad > 0 ? "warn" : "";
    const wanted = chosen.search.trim().toLowerCase().split(/\s+/);
    const isWanted = ({ shown }) => {
      const text = `${shown.name} ${words(shown.state)} ${shown.version ?? ""} ${shown.digest ?? ""} ${shown.why ?? ""}`.toLowerCase();
      return wanted.every((word) => text.includes(word)) && !(chosen.onlyUnwell && shown.well);
    };
    const found = all.filter(isWanted);
    list.show(found);
    setText(matching, found.length === all.length ? "" : `${count(found.length)} of ${count(all.length)}`);
    const failed = all.flatMap(({ shown }) => shown.failures.map((it) => ({ ...it, plugin: shown.name })));
    failures.show(failed.sort((one, other) => other.at - one.at).slice(0, FAILURE_ROWS));
    drawn.draw(model.samples);
    showNotes(node.querySelector("#notes"));
  }

  return { title: "Plugins", node, redraw, search };
}

function nothingYet() {
  return model.now === null ? "Waiting for the host…" : "The host has no plugin: put NAME.wasm into its plugin directory.";
}

/** The warnings of /readyz. */
function showNotes(element) {
  const notes = model.host?.notes ?? [];
  element.hidden = notes.length === 0;
  setText(element, notes.join("\n"));
}
