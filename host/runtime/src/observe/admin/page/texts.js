"use strict";
// Texts: formats of numbers, and functions that make elements. Foreign text becomes a text node and never markup. Only
// this file makes elements, so only this file has to ensure that.

/** The characters that can make a text look like another one: the same as in windlass_core::deceptive. */
const DECEPTIVE =
  /[\p{Cc}\u00ad\u061c\u115f\u1160\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\u2800\u3164\ufeff\uffa0]/gu;

/** `text` with deceptive characters written out, such as `\u{202e}`. Line breaks stay. */
function plain(text) {
  return String(text).replace(DECEPTIVE, (it) => (it === "\n" ? it : `\\u{${it.codePointAt(0).toString(16)}}`));
}

/** An element. Its children are elements or texts; null and false are left out. */
function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An SVG element, made like an element of `el`. */
function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, { on = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  for (const [event, listener] of Object.entries(on)) element.addEventListener(event, listener);
  put(element, ...children);
  return element;
}

/** Replaces the children of `element`. */
function put(element, ...children) {
  const shown = children.flat().filter((child) => child !== null && child !== undefined && child !== false);
  element.replaceChildren(...shown.map((child) => (child instanceof Node ? child : plain(child))));
}

/** Sets the text of `element`, unless it has this text already. */
function setText(element, text) {
  const shown = plain(text);
  if (element.textContent !== shown) element.textContent = shown;
}

/** A whole number, with separators between thousands; or a dash. */
function count(number) {
  return Number.isFinite(number) ? Math.round(number).toLocaleString("en-US") : "–";
}

/** A rate. Small numbers have more decimals. */
function rate(number) {
  if (!Number.isFinite(number)) return "–";
  return number >= 100 || number === 0 ? count(number) : number.toFixed(number >= 10 ? 1 : 2);
}

/** An amount of memory as Kubernetes writes it, such as `1.5Mi`; or a dash. */
function size(bytes) {
  if (!Number.isFinite(bytes)) return "–";
  for (const [unit, shift] of [["Gi", 30], ["Mi", 20], ["Ki", 10]]) {
    if (bytes >= 2 ** shift) return (bytes / 2 ** shift).toFixed(1) + unit;
  }
  return String(Math.round(bytes));
}

/** A time as kubectl writes ages, with fractions if it is short: `12ms`, `1.5s`, `3m20s`, `2h5m`; or a dash. */
function time(seconds) {
  if (!Number.isFinite(seconds) || seconds < 0) return "–";
  if (seconds === 0) return "0s";
  if (seconds < 0.01) return `${(seconds * 1e3).toFixed(1)}ms`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(0)}ms`;
  if (seconds < 60) return `${seconds.toFixed(1)}s`;
  const whole = Math.floor(seconds);
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days > 0) return `${days}d${hours}h`;
  return hours > 0 ? `${hours}h${minutes}m` : `${minutes}m${whole % 60}s`;
}

/** How long ago something was, in whole seconds. */
function ago(seconds) {
  return seconds < 1 ? "now" : `${time(seconds < 60 ? Math.floor(seconds) : seconds).replace(".0s", "s")} ago`;
}

/** A share of one processor; or a dash. */
function percent(share) {
  if (!Number.isFinite(share)) return "–";
  return `${(share * 100).toFixed(share === 0 || share >= 1 ? 0 : 1)}%`;
}

/** A label of the host, such as `waiting-for-policy`, as words. */
function words(label) {
  return String(label ?? "unknown").replaceAll("-", " ");
}

const TONES = {
  ok: ["done", "running", "held-here", "closed"],
  idle: [
    "loading", "ending", "paused", "standing-by", "starting", "syncing", "scheduled", "queued", "waiting-for-permit",
    "settling", "held", "plugin-paused", "not-served", "elsewhere", "free", "requeue-after", "requeue-backoff",
    "not-made",
  ],
  bad: [
    "not-loaded", "suspended", "unserved", "breaker-open", "stopped", "given-up", "failed", "failed-for-good", "denied",
    "api-server-unreachable", "server-unreachable", "caches-unproven", "list-refused", "lease-lost", "open", "gave-up",
  ],
};

/** The mark of a state: ok, idle, warn or bad. */
function toneOf(state, isWell = true) {
  if (!isWell && state === "running") return "warn";
  return Object.keys(TONES).find((tone) => TONES[tone].includes(state)) ?? "warn";
}

/** A state with its mark, which differs by its shape and not only by its colour. */
function badge(state, isWell = true) {
  return el("span", { class: `badge ${toneOf(state, isWell)}` }, words(state));
}

/** The path of a plugin or a key, which is the same for the API and for this page's views. */
function linkTo(plugin, key) {
  const parts = ["plugins", plugin];
  if (key !== undefined) {
    const at = key.indexOf("/");
    parts.push("keys", at < 0 ? "-" : key.slice(0, at), key.slice(at + 1));
  }
  return parts.map(encodeURIComponent).join("/");
}
