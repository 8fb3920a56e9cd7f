// A key's page: why it is not done, and its last calls.

const CALL_COLUMNS = [
  { title: "When", class: "number", text: (it) => ago(it.secondsAgo) },
  { title: "Took", class: "number slim", text: (it) => time(it.tookSeconds) },
  { title: "Outcome", text: (it) => it.outcome, node: (it) => badge(it.outcome) },
  { title: "Writes", class: "number slim", text: (it) => count(it.writes) },
  {
    title: "Error, or what it wrote", class: "text", text: (it) => `${it.error ?? ""} ${it.wrote.join(", ")}`,
    node: (it) => [it.error && el("p", {}, it.error), it.wrote.length > 0 && el("p", { class: "quiet" }, `wrote ${it.wrote.join(", ")}`)],
  },
  { title: "Because", class: "mid", text: (it) => it.triggers.join(", ") || "–" },
  { title: "Trace", class: "wide code", text: (it) => it.traceId, help: "The log lines of the call have this ID" },
];

function keyPage(plugin, namespace, name) {
  const key = namespace === "-" ? name : `${namespace}/${name}`;
  const [stories, problem] = [el("div", {}), el("p", { class: "notice bad", hidden: true })];
  const known = new Map();
  const node = el("div", {},
    trail(["Plugins", "#/"], [plugin, `#/${linkTo(plugin)}`], [key]),
    el("div", { class: "title" }, el("h1", { tabindex: "-1" }, key)), problem, stories);

  async function load() {
    try {
      const answer = await ask(linkTo(plugin, key));
      problem.hidden = true;
      const names = answer.keys.map((it) => it.controller);
      if (names.join() !== [...known.keys()].join()) {
        known.clear();
        names.forEach((it) => known.set(it, keyStory(it)));
        put(stories, [...known.values()].map((it) => it.node));
      }
      answer.keys.forEach((it) => known.get(it.controller).show(it));
    } catch (error) {
      problem.hidden = false;
      setText(problem, reasonOf(error));
    }
  }

  return { title: `${key} of ${plugin}`, node, redraw: () => {}, end: repeatedly(ASK_EVERY, load) };
}

/** The version of the cache that a held key waits for, and how long its watch has been silent. */
function cacheOf({ cacheVersion, silentSeconds }) {
  const version = cacheVersion === null ? "has no complete list yet" : `is at version ${cacheVersion}`;
  const silence = silentSeconds === null ? "its watch has not begun" : `the API server last sent something on its watch ${ago(silentSeconds)}`;
  return `${version}; ${silence}`;
}

/** The state and the last calls of a key of one controller. */
function keyStory(controller) {
  const [state, why, about] = [el("p", { class: "state" }), el("p", {}), el("div", {})];
  const calls = table({
    caption: `Calls of ${controller}, the latest first`, columns: CALL_COLUMNS, key: (it) => it.traceId,
    empty: () => "No call is remembered, as for most keys that are done.",
  });
  const node = section(`Controller ${controller}`, state, why, about, el("h3", {}, "Last calls"), calls.node);
  let shownState = null;

  function show(it) {
    if (shownState !== it.state) put(state, badge(it.state));
    shownState = it.state;
    setText(why, sentence(it.why));
    const waits = it.waitsFor && `${it.waitsFor.what}, in the cache of ${it.waitsFor.watch}, for ${time(it.waitsFor.seconds)}`;
    const cache = it.waitsFor && cacheOf(it.waitsFor);
    const error = it.lastError;
    put(about, facts([
      ["Since", it.sinceSeconds === null ? null : ago(it.sinceSeconds)],
      ["Runs in", it.retryInSeconds === null ? null : time(it.retryInSeconds)],
      ["Because", it.triggers.length > 0 ? it.triggers.join(", ") : null],
      ["Waits for", waits || null],
      ["The cache", cache || null],
      ["Loops", it.loopsOver && `it writes ${it.loopsOver} over and over`],
      ["Unchanged", it.unchanged && `the last call, ${time(it.unchanged.seconds)} ago, changed nothing; calls saved since: ${count(it.unchanged.savedCalls)}`],
      ["Failures", it.failures > 0 ? `${count(it.failures)} in a row, ${count(it.attempts)} of them counted` : null],
      ["Object", it.exists ? null : "it is not in the cache: it is gone, or never existed"],
      ["Last error", error && el("div", {}, el("p", { class: "quiet" }, ago(error.secondsAgo)), el("pre", {}, error.error), logged(error.log))],
    ]));
    calls.show(it.calls);
  }

  return { node, show };
}

function sentence(text) {
  return text ? `${text[0].toUpperCase()}${text.slice(1)}.` : "";
}
