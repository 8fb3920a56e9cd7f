// A plugin's page: everything that the host shows about the plugin, and its keys, a page at a time.

/** The keys on one page. */
const KEY_ROWS = 50;
/** How often a page asks for data that the stream does not contain, in milliseconds. */
const ASK_EVERY = 2000;
/** The chosen filters of keys, by plugin. They are kept while another page is shown. */
const keyChoices = new Map();

const CONTROLLER_COLUMNS = [
  { title: "Controller", heads: true, text: (it) => it.name },
  {
    title: "State", text: (it) => `${it.state} ${it.reason ?? ""}`,
    node: (it) => [badge(it.state), it.reason && el("p", { class: "why" }, it.reason)],
  },
  { title: "Breaker", class: "slim", text: (it) => JSON.stringify(it.breaker), node: (it) => breakerNode(it.breaker) },
  { title: "Queue", class: "number", text: (it) => count(it.queue?.depth), help: "Keys that wait for a worker" },
  { title: "Backoff", class: "number slim", text: (it) => count(it.queue?.backoff), help: "Keys that wait for their next attempt" },
  { title: "Held", class: "number mid", text: (it) => count(it.queue?.parked), help: "Keys that wait until a cache shows what they wrote" },
  { title: "Settling", class: "number mid", text: (it) => count(it.queue?.settling), help: "Keys that wait for the fate of a write" },
  { title: "Failing", class: "number", text: (it) => count(it.failing) },
  { title: "Paused", class: "number mid", text: (it) => count(it.paused), help: "Keys whose object is paused" },
  { title: "Given up", class: "number slim", text: (it) => count(it.givenUp.length + it.givenUpUnlisted) },
  { title: "Slow lane", class: "number mid", text: (it) => count(it.slowLane.length), help: "Keys that write one object over and over" },
];

const KEY_COLUMNS = (plugin) => [
  { title: "Key", heads: true, text: (it) => it.key, node: (it) => el("a", { href: `#/${linkTo(plugin, it.key)}` }, it.key) },
  { title: "Controller", class: "mid", text: (it) => it.controller },
  { title: "State", text: (it) => it.state, node: (it) => badge(it.state) },
  { title: "Failures", class: "number slim", text: (it) => count(it.failures) },
  { title: "Runs in", class: "number slim", text: (it) => time(it.retryInSeconds ?? NaN) },
  { title: "Last error", class: "text", text: (it) => it.lastError ?? "", node: (it) => clipped(it.lastError) },
];

const LAST_ERROR_COLUMNS = (plugin) => [
  { title: "When", class: "number", text: (it) => ago(it.secondsAgo) },
  { title: "Key", heads: true, text: (it) => it.key, node: (it) => el("a", { href: `#/${linkTo(plugin, it.key)}` }, it.key) },
  { title: "Controller", class: "mid", text: (it) => it.controller },
  {
    title: "Error, and what was logged before", class: "text", text: (it) => `${it.error} ${it.log.map((line) => line.message).join(" ")}`,
    node: (it) => [clipped(it.error), logged(it.log)],
  },
];

const DENIAL_COLUMNS = [
  { title: "Verb", heads: true, text: (it) => it.verb },
  { title: "Resource", text: (it) => it.resource },
  { title: "Cause", class: "text", text: (it) => it.cause },
  { title: "Count", class: "number", text: (it) => count(it.count) },
  { title: "Last", class: "text", text: (it) => (typeof it.last === "string" ? it.last : JSON.stringify(it.last)) },
];

function breakerNode(breaker) {
  if (!breaker) return "–";
  const probe = breaker.probeInSeconds === null ? "" : `, a trial in ${time(breaker.probeInSeconds)}`;
  const openings = breaker.openings > 0 ? `${count(breaker.openings)} openings${probe}` : null;
  return [breaker.state === "closed" ? "closed" : badge(breaker.state), openings && el("p", { class: "why" }, openings)];
}

/** Problems with a plugin's files, except the reason why it does not run. */
function fileNotes(plugin) {
  const note = (name, of) => of && `${name}${of.digest ? ` ${of.digest.slice(0, 12)}` : ""}: ${of.reason}`;
  const left = (plugin.leftBehind ?? []).map((it) => `${count(it.count)} ${it.resource}`).join(", ");
  return [
    note("Waits to run", plugin.pending), note("Not taken", plugin.notTaken), note("Rolled back", plugin.rejected), plugin.untold,
    plugin.next && "The next version is tried beside this one: windlass rollout status shows how its decisions differ.",
    left && `Left behind by earlier versions: ${left}`,
  ].filter(Boolean);
}

function leaseText({ lease }) {
  if (!lease) return "none: every replica that has loaded it runs it";
  if (lease.heldHere) return `${lease.name}, held here by ${lease.holder ?? "this replica"}`;
  if (lease.status === "lost") return `${lease.name}, lost by ${lease.holder}`;
  return lease.holder ? `${lease.name}, held by ${lease.holder}` : `${lease.name}, free`;
}

function pluginPage(name) {
  const [state, why, notes] = [el("span", {}), el("p", { class: "notice", hidden: true }), el("ul", { class: "notice warn", hidden: true })];
  const about = el("div", {});
  const drawn = curves();
  const controllers = table({ caption: "Controllers", columns: CONTROLLER_COLUMNS, key: (it) => it.name, empty: () => "No controller of the plugin is at work here." });
  const denials = table({ caption: "Denials", columns: DENIAL_COLUMNS, key: (it) => `${it.verb} ${it.resource} ${it.cause}`, empty: () => "Nothing was denied." });
  const keys = keyList(name);
  const denied = section("Denials", denials.node);
  const failures = table({ caption: "Recent failures", columns: LAST_ERROR_COLUMNS(name), key: (it) => `${it.controller} ${it.key}`, empty: () => "No key fails." });
  const failed = section("Recent failures", failures.node);
  const node = el("div", {},
    trail(["Plugins", "#/"], [name]),
    el("div", { class: "title" }, el("h1", { tabindex: "-1" }, name), state),
    why, notes, about, drawn.node,
    section("Controllers", controllers.node), keys.node, failed, denied,
    el("p", { class: "hint" }, "Everything that the host shows about the plugin, as JSON: ", el("a", { href: linkTo(name) }, linkTo(name))));
  let [latest, drawnState] = [null, null];

  async function load() {
    try {
      latest = await ask(linkTo(name));
    } catch (error) {
      latest = null;
      why.hidden = false;
      why.className = "notice bad";
      setText(why, reasonOf(error));
    }
    redraw();
  }

  function redraw() {
    const [known, now] = [model.plugins.get(name), latest?.usage];
    drawn.draw(known?.samples ?? []);
    if (!latest) return;
    const shown = latest.health;
    const mark = `${shown.state} ${shown.well}`;
    if (drawnState !== mark) put(state, badge(shown.state, shown.well));
    drawnState = mark;
    why.hidden = !shown.why;
    why.className = `notice ${toneOf(shown.state, shown.well)}`;
    setText(why, shown.why ?? "");
    const lines = fileNotes(latest);
    notes.hidden = lines.length === 0;
    if (notes.textContent !== lines.map(plain).join("")) put(notes, lines.map((line) => el("li", {}, line)));
    put(about, facts([
      ["Version", latest.version ?? "–"],
      ["Digest", latest.digest ? el("code", {}, latest.digest) : "–"],
      ["Lease", leaseText(latest)],
      ["CPU", `${time(now.cpuSeconds)} used, ${percent(known?.sample?.cpu ?? NaN)} now`],
      ["Memory", `${size(now.memoryBytes)}, at most ${size(now.memoryPeakBytes)}`],
      ["Cache", size(now.cacheBytes)],
      ["Writes", count(now.writes)],
      ["Denied", count(now.denied)],
    ]));
    controllers.show(latest.controllers);
    const last = latest.controllers.flatMap((it) => it.lastErrors.map((error) => ({ ...error, controller: it.name })));
    failed.hidden = last.length === 0;
    failures.show(last.sort((one, other) => one.secondsAgo - other.secondsAgo).slice(0, FAILURE_ROWS));
    denied.hidden = latest.denials.length === 0;
    denials.show(latest.denials);
  }

  const [endLoad, endKeys] = [repeatedly(ASK_EVERY, load), repeatedly(ASK_EVERY, keys.load)];
  return { title: name, node, redraw, search: keys.search, end: () => [endLoad(), endKeys()] };
}

/** The keys of a plugin, as the host pages them: it may have a hundred thousand. */
function keyList(name) {
  const choice = keyChoices.get(name) ?? { state: "not-done", search: "", pages: [] };
  keyChoices.set(name, choice);
  // A screen reader should read the number of keys after a choice, but not each change of the number later.
  let [next, asked, isChosen] = [null, 0, true];
  const list = table({
    caption: "Keys", columns: KEY_COLUMNS(name), key: (it) => `${it.controller} ${it.key}`,
    empty: () => (choice.state === "not-done" && !choice.search ? "Every key is done." : "No key matches."),
  });
  const [found, problem] = [el("span", { class: "matching", role: "status" }), el("p", { class: "notice bad", hidden: true })];
  const states = el("select", { "aria-label": "Keys in this state", on: { change: () => choose({ state: states.value }) } });
  let typing = null;
  const search = searchField("Search keys", choice.search, (text) => {
    clearTimeout(typing);
    typing = setTimeout(() => choose({ search: text.trim() }), 250);
  });
  const turn = (by) => () => {
    if (by > 0) choice.pages.push(next);
    else choice.pages.pop();
    load();
  };
  const [before, after] = [pagerButton("Previous", turn(-1)), pagerButton("Next", turn(1))];
  const range = el("span", { class: "range" });
  const pager = el("div", { class: "pager" }, before, range, after);
  const node = section("Keys", el("div", { class: "tools" }, search, states, found), problem, list.node, pager);

  function choose(change) {
    Object.assign(choice, change, { pages: [] });
    isChosen = true;
    load();
  }

  async function load() {
    const query = new URLSearchParams({ limit: KEY_ROWS });
    if (choice.state !== "all") query.set("state", choice.state);
    if (choice.search) query.set("search", choice.search);
    if (choice.pages.length > 0) query.set("continue", choice.pages.at(-1));
    const own = ++asked;
    try {
      const page = await ask(`${linkTo(name)}/keys?${query.toString().replaceAll("+", "%20")}`);
      // Otherwise a later choice has replaced this one meanwhile.
      if (own === asked) showPage(page);
    } catch (error) {
      if (own !== asked) return;
      problem.hidden = false;
      setText(problem, reasonOf(error));
    }
  }

  function showPage(page) {
    problem.hidden = true;
    next = page.continue;
    list.show(page.keys);
    const first = choice.pages.length * KEY_ROWS;
    pager.hidden = choice.pages.length === 0 && !next;
    setText(range, page.keys.length === 0 ? "" : `${count(first + 1)}–${count(first + page.keys.length)} of ${count(page.total)}`);
    [before.disabled, after.disabled] = [choice.pages.length === 0, !next];
    const sum = Object.values(page.states).reduce((total, it) => total + it, 0);
    found.setAttribute("aria-live", isChosen ? "polite" : "off");
    isChosen = false;
    setText(found, `${count(page.total)} of ${count(sum)}`);
    const options = [["not-done", "not done", sum - (page.states.done ?? 0)], ["all", "all", sum]];
    options.push(...Object.entries(page.states).map(([state, number]) => [state, words(state), number]));
    if (!options.some(([state]) => state === choice.state)) options.push([choice.state, words(choice.state), 0]);
    const wanted = options.map(([state, text, number]) => [state, `${text} (${count(number)})`]);
    // Replacing the options of an open list would move its selection.
    if (document.activeElement !== states || states.options.length !== wanted.length) {
      put(states, wanted.map(([value, text]) => el("option", { value, selected: value === choice.state }, text)));
    }
  }

  return { node, load, search };
}

/** The links from the first page to this one. */
function trail(...parts) {
  const items = parts.map(([text, href]) => el("li", {}, href ? el("a", { href }, text) : el("span", { "aria-current": "page" }, text)));
  return el("nav", { class: "trail", "aria-label": "The way to this page" }, el("ol", {}, items));
}
