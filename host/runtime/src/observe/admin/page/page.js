// Which page is shown, and what surrounds it.

const main = document.getElementById("main");
let view = null;

/** The view that the address names. */
function viewOf(hash) {
  let parts;
  try {
    parts = hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    return overview();
  }
  const [place, plugin, keys, namespace, name] = parts;
  if (place === "plugins" && plugin && keys === "keys" && name) return keyPage(plugin, namespace, name);
  if (place === "plugins" && plugin) return pluginPage(plugin);
  return overview();
}

function go(isFirst) {
  view?.end?.();
  view = viewOf(location.hash);
  put(main, view.node);
  refreshNow();
  // A screen reader should read the new heading. It has read the heading of the first page already.
  if (!isFirst) {
    scrollTo(0, 0);
    main.querySelector("h1").focus();
  }
}

let isAsked = false;

/** Shows what has changed, at the next frame. */
function refresh() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    refreshNow();
  });
}

function refreshNow() {
  const host = model.host;
  const ready = document.getElementById("ready");
  if (host) {
    ready.className = `ready badge ${host.ready ? "ok" : "warn"}`;
    setText(ready, host.ready ? "ready" : `not ready: ${host.why}`);
  }
  const stream = document.getElementById("stream");
  stream.className = `stream ${model.isLive ? "live" : "lost"}`;
  // The text does not change while time passes, because screen readers read out each change.
  const since = model.now === null ? "" : `; this is from ${new Date(model.receivedDate).toLocaleTimeString()}`;
  setText(stream, model.isLive ? "live" : model.problem ? `not live: ${model.problem}${since}` : "connecting…");
  const unwell = [...model.plugins.values()].filter(({ shown }) => !shown.well).length;
  document.title = `${unwell > 0 ? `(${unwell}) ` : ""}${plain(view.title)} – Windlass`;
  view.redraw();
}

document.getElementById("address").textContent = location.host;
document.getElementById("skip").addEventListener("click", (event) => {
  // The fragment of the address names a view, so it cannot name a place on the page.
  event.preventDefault();
  main.focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  if (!view.search) return;
  event.preventDefault();
  view.search.focus();
});
addEventListener("hashchange", () => go(false));
// Curves move and ages grow even if the host sends nothing new.
setInterval(() => document.hidden || refresh(), 1000);
go(true);
follow();
