// The host as this page knows it: the latest data from /watch, and samples of them for the curves.

/** Samples older than this are forgotten, in seconds. */
const SAMPLE_SPAN = 300;
/** The host sends something every ten seconds. A stream that is silent for longer than this, in seconds, is dead. */
const SILENCE = 25;
/** A hidden page closes its stream after this time, in milliseconds, because the host allows only a few streams. */
const HIDDEN = 60_000;

const model = { host: null, plugins: new Map(), samples: [], now: null, receivedAt: 0, receivedDate: 0, problem: null, isLive: false };

const clock = () => performance.now() / 1000;

/** The current time of the host, in seconds since it started. */
const hostNow = () => (model.now === null ? 0 : model.now + (clock() - model.receivedAt));

const NOTHING = { calls: 0, callSeconds: 0, waits: 0, waitSeconds: 0, cpu: 0, writes: 0 };

/** How the counts of a plugin have grown in `span` seconds. A host that has restarted counts from zero. */
function growth(before, after, span) {
  if (!before || !span) return { ...NOTHING, span: null };
  const of = (name) => (after[name] < before[name] ? after[name] : after[name] - before[name]);
  return {
    calls: of("calls"), callSeconds: of("callSeconds"), waits: of("waits"), waitSeconds: of("waitSeconds"),
    cpu: of("cpuSeconds"), writes: of("writes"), span,
  };
}

/** One sample: the waiting keys, and the work per second since the sample before. */
function sample(t, queue, failing, grown) {
  const by = (number) => (grown.span ? number / grown.span : null);
  return {
    t, queue, failing, grown,
    callRate: by(grown.calls), cpu: by(grown.cpu), writeRate: by(grown.writes),
    call: grown.calls > 0 ? grown.callSeconds / grown.calls : null,
    wait: grown.waits > 0 ? grown.waitSeconds / grown.waits : null,
  };
}

function keep(samples, next) {
  const last = samples.at(-1);
  // The host sends only changes, so until a second before this sample, nothing had changed.
  if (last && !last.gap && next.t - last.t > 2.5) {
    samples.push(sample(next.t - 1, last.queue, last.failing, { ...NOTHING, span: 1 }));
  }
  samples.push(next);
  while (samples.length > 2 && samples[1].t < next.t - SAMPLE_SPAN) samples.shift();
}

/** The seconds since the previous event. A stream's first event has no `span`, but this page knows the last stream. */
function spanOf(data) {
  const goesOn = model.isLive && data.now > model.now && Math.abs(data.now - hostNow()) < 1;
  return data.span ?? (goesOn ? data.now - model.now : null);
}

/** Takes over the data of an event. */
function take(event, data) {
  const [t, span] = [clock(), spanOf(data)];
  const isAll = event === "state";
  if (model.now !== null && data.now < model.now) forgetSamples();
  Object.assign(model, { now: data.now, receivedAt: t, receivedDate: Date.now(), isLive: true, problem: null }, data.host ? { host: data.host } : {});
  const changed = new Map((data.plugins ?? []).map((shown) => [shown.name, shown]));
  if (isAll) {
    for (const name of model.plugins.keys()) if (!changed.has(name)) model.plugins.delete(name);
  }
  for (const [name, shown] of changed) {
    const known = model.plugins.get(name) ?? { samples: [], shown: null, sample: null };
    known.before = known.shown;
    known.shown = shown;
    model.plugins.set(name, known);
  }
  const sum = { queue: 0, failing: 0, grown: { ...NOTHING, span } };
  for (const [name, plugin] of model.plugins) {
    const isChanged = changed.has(name);
    const isIdle = plugin.sample?.grown.span && Object.keys(NOTHING).every((it) => plugin.sample.grown[it] === 0);
    if (isChanged || !isIdle) {
      const grown = isChanged ? growth(plugin.before, plugin.shown, span) : { ...NOTHING, span };
      plugin.sample = sample(t, plugin.shown.queue, plugin.shown.failing, grown);
      keep(plugin.samples, plugin.sample);
    }
    sum.queue += plugin.shown.queue;
    sum.failing += plugin.shown.failing;
    for (const it of Object.keys(NOTHING)) sum.grown[it] += plugin.sample.grown[it];
  }
  keep(model.samples, sample(t, sum.queue, sum.failing, sum.grown));
  refresh();
}

function forgetSamples() {
  model.samples = [];
  for (const plugin of model.plugins.values()) plugin.samples = [];
}

/** Begins a gap in the curves, for the time in which the host sends nothing. */
function interrupt() {
  const gap = () => ({ t: clock(), gap: true });
  for (const { samples } of [model, ...model.plugins.values()]) if (samples.length > 0 && !samples.at(-1).gap) samples.push(gap());
}

/** One event of the stream: its name, and its data as JSON. */
function read(text) {
  const fields = Object.fromEntries(text.split("\n").map((line) => [line.split(":", 1)[0], line.slice(line.indexOf(":") + 1).trim()]));
  if (fields.data) take(fields.event ?? "message", JSON.parse(fields.data));
}

/** Reads the stream to its end. EventSource would hide why a stream was refused. */
async function listen(signal) {
  const answer = await fetch("watch", { headers: { Accept: "text/event-stream" }, signal });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    events.forEach(read);
  }
}

/** Follows the host while this page is visible. */
async function follow() {
  let pause = 500;
  for (;;) {
    const ending = new AbortController();
    const opened = clock();
    const watch = setInterval(() => {
      if (clock() - Math.max(model.receivedAt, opened) > SILENCE) ending.abort(new Error("the host sends nothing"));
    }, 1000);
    let hidden = null;
    const look = () => {
      clearTimeout(hidden);
      if (document.hidden) hidden = setTimeout(() => ending.abort(new Error("the page was hidden")), HIDDEN);
    };
    document.addEventListener("visibilitychange", look);
    look();
    try {
      await listen(ending.signal);
      // The host ends each stream after some minutes.
      pause = 200;
    } catch (error) {
      model.problem = ending.signal.aborted ? ending.signal.reason.message : reasonOf(error);
      model.isLive = false;
      pause = clock() - opened > 5 ? 500 : Math.min(pause * 2, 10_000);
      interrupt();
    }
    clearInterval(watch);
    clearTimeout(hidden);
    document.removeEventListener("visibilitychange", look);
    refresh();
    await new Promise((resolve) => setTimeout(resolve, pause));
    if (document.hidden) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
  }
}

/** Why a request failed, in a sentence. */
function reasonOf(error) {
  return error instanceof TypeError ? "the host does not answer" : error.message;
}

/** The document at `path`. */
async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

/** Calls `load` again and again while the page is visible. Returns a function that ends this. */
function repeatedly(every, load) {
  let isOver = false;
  const rounds = async () => {
    while (!isOver) {
      if (!document.hidden) await load();
      await new Promise((resolve) => setTimeout(resolve, every));
    }
  };
  rounds();
  return () => (isOver = true);
}
