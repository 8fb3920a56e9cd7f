// Clicks through the status page of a running host in Chromium, and takes screenshots.
//
//     node story.mjs ADDRESS FOLDER
//
// tests/cases/page.rs starts the host with the plugins that this story expects, and keeps it busy meanwhile.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";

const { WINDLASS_CHROMIUM: executablePath, WINDLASS_BROWSER: packages, NAMESPACE: namespace } = process.env;
const [address, folder] = process.argv.slice(2);
const { chromium } = createRequire(`${packages}/`)("playwright-core");
const home = `http://${address}/`;
const DESKTOP = { width: 1440, height: 900 };
const PHONE = { width: 390, height: 844 };

// Chromium's own sandbox does not work if root runs the browser.
const browser = await chromium.launch({ executablePath, args: process.getuid() === 0 ? ["--no-sandbox"] : [] });

/** Opens a separate page. It must log no error, ask no other server, and request no change of the host. */
async function open(options, work) {
  const context = await browser.newContext({ viewport: DESKTOP, colorScheme: "light", reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const complaints = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.stack));
  page.on("dialog", (dialog) => complaints.push(dialog.message()));
  page.on("request", (request) => {
    const isOurs = request.url().startsWith(home) || request.url().startsWith("data:");
    if (!isOurs || request.method() !== "GET") complaints.push(`${request.method()} ${request.url()}`);
  });
  await page.goto(home);
  await work(page, complaints);
  assert.deepEqual(complaints, []);
  await context.close();
}

/** Waits until `look` no longer throws. */
async function until(look) {
  const end = Date.now() + 20_000;
  for (;;) {
    try {
      return await look();
    } catch (error) {
      if (Date.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

const picture = (page, name, options) => page.screenshot({ path: path.join(folder, `${name}.png`), ...options });
const table = (page, name) => page.getByRole("table", { name, exact: true });
const rows = (page, name) => table(page, name).locator("tbody tr");
const is = (locator, text) => until(async () => assert.equal((await locator.innerText()).trim(), text));
const has = (locator, text) => until(async () => assert.ok((await locator.innerText()).includes(text), `${text} in ${await locator.innerText()}`));
const are = (locator, number) => until(async () => assert.equal(await locator.count(), number));

/** Checks that no element is wider than the window. */
async function fits(page) {
  const [wide, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(wide <= width, `${page.url()} is ${wide} wide in a window of ${width}`);
}

/** Waits until the curves show this many seconds. */
async function drawn(page, seconds) {
  await page.waitForFunction((least) => {
    const line = document.querySelector(".curve .line-0")?.getAttribute("d") ?? "";
    return line.split("L").length >= least;
  }, seconds, { timeout: 60_000 });
}

async function searches(page) {
  await is(page.locator("#stream"), "live");
  await are(rows(page, "Plugins"), 5);
  await has(rows(page, "Plugins").first(), "legacy-import");
  await has(rows(page, "Plugins").first(), "not loaded");
  assert.match(await page.title(), /^\(\d+\) Plugins – Windlass$/);
  // The first Tab selects a link that skips the head of the page.
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  for (const landmark of ["banner", "main", "contentinfo"]) await are(page.getByRole(landmark), 1);
  // The slash key moves the focus to the search field, and the typed text filters the rows.
  await page.keyboard.press("/");
  await page.keyboard.type("cham runn");
  await are(rows(page, "Plugins"), 1);
  await is(page.getByRole("status").nth(1), "1 of 5");
  await page.getByRole("searchbox", { name: "Search plugins" }).fill("");
  await page.getByLabel("Only those that need attention").check();
  await until(async () => assert.ok((await rows(page, "Plugins").count()) < 5));
  await page.getByLabel("Only those that need attention").uncheck();
  const memory = page.getByRole("columnheader", { name: "Memory" });
  await memory.getByRole("button").click();
  assert.equal(await memory.getAttribute("aria-sort"), "descending");
  await memory.getByRole("button").click();
  assert.equal(await memory.getAttribute("aria-sort"), "ascending");
  await page.getByRole("columnheader", { name: "State" }).getByRole("button").click();
}

async function looksAtAPlugin(page) {
  await table(page, "Plugins").getByRole("link", { name: "chameleon" }).click();
  await is(page.getByRole("heading", { level: 1 }), "chameleon");
  assert.equal(new URL(page.url()).hash, "#/plugins/chameleon");
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1");
  await has(rows(page, "Controllers").first(), "running");
  await are(rows(page, "Keys"), 50);
  await has(page.locator(".pager").last(), "1–50 of 120");
  await has(table(page, "Recent failures").getByRole("list", { name: "Logged before" }).first(), "INFO chameleon: about to fail");
  await page.getByRole("button", { name: "Next" }).last().click();
  await has(page.locator(".pager").last(), "51–100 of 120");
  await page.getByRole("searchbox", { name: "Search keys" }).fill("visitor-11");
  await are(rows(page, "Keys"), 10);
  await page.getByRole("combobox", { name: "Keys in this state" }).selectOption("all");
  await page.getByRole("searchbox", { name: "Search keys" }).fill("visitor-117");
  await are(rows(page, "Keys"), 1);
  // A screen reader announces the result of the search, but not later changes of the number.
  await until(async () => assert.equal(await page.getByRole("status").nth(1).getAttribute("aria-live"), "off"));
}

async function looksAtAKey(page) {
  const key = `${namespace}/visitor-117`;
  await table(page, "Keys").getByRole("link").click();
  await is(page.getByRole("heading", { level: 1 }), key);
  await has(page.getByRole("main"), "told to fail for now");
  await has(page.getByRole("list", { name: "Logged before" }), "INFO chameleon: about to fail");
  await has(table(page, "Calls of chameleon, the latest first"), "failed");
  // After going back, the filter is still set.
  await page.goBack();
  await is(page.getByRole("heading", { level: 1 }), "chameleon");
  assert.equal(await page.getByRole("searchbox", { name: "Search keys" }).inputValue(), "visitor-117");
  await page.getByRole("navigation").getByRole("link", { name: "Plugins" }).click();
  await is(page.getByRole("heading", { level: 1 }), "Plugins");
}

/** The page shows the plugin's text unchanged, with deceptive characters as escapes. */
async function readsAHostileText(page) {
  const written = 'onerror="window.pwned = true">';
  await has(table(page, "Recent failures"), written);
  await table(page, "Recent failures").getByRole("link", { name: `${namespace}/hostile` }).click();
  await has(page.locator("pre"), written);
  await has(page.locator("pre"), "\\u{202e}evil");
  await are(page.locator("main img, main script"), 0);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  // Even if a text were used as markup, it would have no effect.
  const refused = await page.evaluate(() => {
    try {
      document.querySelector("pre").innerHTML = "<img src=x>";
      return false;
    } catch {
      return true;
    }
  });
  assert.ok(refused, "the page's policy must refuse to turn a text into HTML");
}

await open({}, async (page) => {
  await searches(page);
  await drawn(page, 12);
  await picture(page, "plugins-light");
  await looksAtAPlugin(page);
  await looksAtAKey(page);
  await page.goto(`${home}#/plugins/webapp`);
  await is(page.getByRole("heading", { level: 1 }), "webapp");
  await page.waitForResponse((response) => response.url().endsWith("/plugins/webapp"));
  await picture(page, "plugin-light");
});

// The page's policy refuses the markup, and the browser must report this on the console.
await open({}, async (page, complaints) => {
  await readsAHostileText(page);
  await picture(page, "key-light");
  const others = complaints.filter((it) => !it.includes("TrustedHTML") && !it.includes("Trusted Type"));
  assert.deepEqual(others, []);
  complaints.length = 0;
});

for (const [name, options] of [["dark", { colorScheme: "dark" }], ["phone", { viewport: PHONE, isMobile: true, hasTouch: true }]]) {
  await open(options, async (page) => {
    await are(rows(page, "Plugins"), 5);
    await drawn(page, name === "dark" ? 10 : 3);
    await fits(page);
    await picture(page, `plugins-${name}`);
    await table(page, "Plugins").getByRole("link", { name: "chameleon" }).click();
    await are(rows(page, "Keys"), 50);
    await fits(page);
    await picture(page, `plugin-${name}`);
    await table(page, "Keys").getByRole("link").first().click();
    await has(page.getByRole("main"), "told to fail for now");
    await fits(page);
    await picture(page, `key-${name}`);
  });
}

// A page without a stream shows the reason. A page with a thousand plugins shows the first ones soon.
await open({}, async (page, complaints) => {
  await page.route("**/watch", (route) => route.fulfill({ status: 503, body: "16 status pages are open\n" }));
  await page.reload();
  await has(page.locator("#stream"), "not live: 16 status pages are open");
  await page.unroute("**/watch");
  await is(page.locator("#stream"), "live");
  const plugin = (number) => ({
    name: `plugin-${number}`, version: "1.0.0", digest: "0123456789ab", state: "running", why: null, well: true, lease: null, breaker: "closed",
    queue: number, held: 0, backoff: 0, settling: 0, failing: 0, running: 0, calls: 0, callSeconds: 0, waits: 0, waitSeconds: 0, cpuSeconds: 0,
    memoryBytes: 0, cacheBytes: 0, writes: 0, denied: 0, failures: [],
  });
  const state = { now: 1, span: null, host: { ready: true, why: null, notes: [] }, plugins: Array.from({ length: 1000 }, (_, it) => plugin(it)) };
  await page.route("**/watch", (route) => route.fulfill({ contentType: "text/event-stream", body: `event: state\ndata: ${JSON.stringify(state)}\n\n` }));
  await page.reload();
  await are(rows(page, "Plugins"), 200);
  await has(page.locator(".pager").first(), "1–200 of 1,000");
  const took = await page.evaluate(() => {
    const begun = performance.now();
    refreshNow();
    return performance.now() - begun;
  });
  assert.ok(took < 200, `a refresh of a thousand plugins takes ${took} ms`);
  // The host ends each stream after a while. The rates continue from the stream's last figures.
  const begun = Date.now();
  await page.route("**/watch", (route) => {
    const now = (Date.now() - begun) / 1000;
    const [first, ...others] = state.plugins;
    const told = { ...state, now, plugins: [{ ...first, calls: Math.round(100 * now) }, ...others] };
    return route.fulfill({ contentType: "text/event-stream", body: `event: state\ndata: ${JSON.stringify(told)}\n\n` });
  });
  await page.reload();
  await until(async () => {
    const shown = await page.locator(".tiles div", { hasText: "Calls/s" }).locator("dd").innerText();
    assert.ok(Math.abs(Number(shown) - 100) < 20, `${shown} calls a second`);
  });
  const lost = complaints.filter((it) => !it.includes("503"));
  assert.deepEqual(lost, []);
  complaints.length = 0;
});

await browser.close();
