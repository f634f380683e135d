// A run over several sensors in a browser: its view, the choice of a sensor, one flow at several.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fixture, launch, openReport, settled, SIZES } from "./browser.mjs";
import { serve } from "./serve.mjs";

const HOSTILE = "<img src=x onerror=alert(1)>";
let browser;

before(async () => {
  browser = await launch();
});
after(() => browser.close());

/** Cells of a table of the page, by its caption. */
function cells(page, caption) {
  return page.$$eval(`[aria-label="${caption}"] tbody tr`, (rows) =>
    rows.map((row) => [...row.children].map((cell) => cell.innerText.replaceAll("\u00a0", " "))),
  );
}

const textOf = (page) => page.$eval("main", (main) => main.innerText);
const hashOf = (page) => page.evaluate(() => decodeURIComponent(window.location.hash));

test("the view is in the navigation only of a run over sensors", async () => {
  for (const [name, wanted] of [
    ["office", false],
    ["sensors", true],
  ]) {
    const { page, show } = await openReport(browser, fixture(name));
    await settled(page);
    const links = await page.$$eval("#views a", (all) => all.map((each) => each.hash));
    assert.equal(links.includes("#/sensors"), wanted);
    const has = (selector) => page.$(selector).then((found) => found !== null);
    assert.equal(await has(".sensor-choice"), wanted);
    await show("#/sensors");
    assert.equal((await textOf(page)).includes("does not include results of sensors"), !wanted);
    await page.close();
  }
});

test("each sensor has its state, losses stand out, and it leads to its flows", async () => {
  const data = fixture("sensors");
  const { columns, rows } = data.tables.sensors;
  const out = rows.find((row) => row[0] === "gateway-out" && row[2] === "now");
  out[columns.indexOf("packets_dropped")] = 527;
  out[columns.indexOf("rows_missing")] = 3;
  const { page, complaints, show } = await openReport(browser, data);
  await show("#/sensors?sensor=office");
  const states = await cells(page, "Sensors");
  assert.deepEqual(
    states.map(([name, state]) => [name, state.replace(/\d+ s$/, "N s")]),
    [
      ["gateway-in", "✓ heard"],
      ["gateway-out", "✓ heard"],
      ["office", "! silent for N s"],
    ],
  );
  assert.match(states[0][2], /^2026-/);
  assert.deepEqual(states[1].slice(3, 8), ["5,268", "527 (10.0 %)", "22", "3", "0"]);
  const losses = await page.$$eval(".loss", (all) => all.map((each) => each.innerText));
  assert.ok(losses.includes("527 (10.0\u00a0%)") && losses.includes("3"));
  await page.click('[aria-label="Sensors"] tbody tr:nth-child(2) a');
  await settled(page);
  assert.match(await hashOf(page), /^#\/flows\?where=sensor\+==\+"gateway-out"$/);
  const flows = await cells(page, "Flows");
  assert.deepEqual(
    flows.map((row) => row[2]),
    Array(3).fill("gateway-out"),
  );
  assert.deepEqual(complaints, []);
  await page.close();
});

test("events and joined flows have filters and orders of their own", async () => {
  const { page, show } = await openReport(browser, fixture("sensors"));
  await show("#/sensors");
  const events = await cells(page, "Events of sensors");
  assert.deepEqual(
    events.slice(0, 2).map((row) => [row[0], row[2]]),
    [
      ["gateway-in", "back"],
      ["gateway-in", "restarted"],
    ],
  );
  assert.ok(events.every((row) => row[2] !== "now"));
  await show('#/sensors?events_where=event+==+"silent"&joined_sort=-first_spread_s');
  assert.deepEqual(
    (await cells(page, "Events of sensors")).map((row) => row[2]),
    ["silent", "silent"],
  );
  const joined = await cells(page, "Flows seen at several sensors");
  assert.deepEqual(
    joined.map((row) => row.slice(3, 6)),
    [
      ["gateway-in, gateway-out", "3,383", "33 (1.0 %)"],
      ["gateway-in, gateway-out", "752", "18 (2.4 %)"],
      ["gateway-in, gateway-out", "1,208", "24 (2.0 %)"],
    ],
  );
  await page.type('input[aria-label="Filter flows seen at several sensors"]', "packets_max > 1000");
  await page.keyboard.press("Enter");
  await page.waitForFunction(
    () =>
      document.querySelectorAll('[aria-label="Flows seen at several sensors"] tbody tr').length ===
      2,
  );
  assert.match(await hashOf(page), /events_where=.*joined_where=/);
  assert.equal((await cells(page, "Events of sensors")).length, 2);
  await page.close();
});

test("a flow shows what each sensor saw, and the details of one", async () => {
  const { page, show } = await openReport(browser, fixture("sensors"));
  await show("#/sensors?joined_sort=-packets_max");
  await page.click('[aria-label="Flows seen at several sensors"] tbody a.row-link');
  await settled(page);
  assert.match(await hashOf(page), /^#\/flow\/1:3UqHzrOghMCQ9P9O6WoaPR6X\+\/I=\?first_ns=/);
  const caption = "What each sensor saw of this flow";
  const seen = await cells(page, caption);
  assert.deepEqual(
    seen.map((row) => [row[0], row[1], row[4], row[7]]),
    [
      ["gateway-in", "3,383", "0 (0.0 %)", "0 ns"],
      ["gateway-out", "3,350", "33 (1.0 %)", "47.6 µs"],
    ],
  );
  const figures = () => page.$eval(".figures", (each) => each.innerText);
  assert.match(await figures(), /3,383 packets/);
  await page.click(`[aria-label="${caption}"] tbody tr:nth-child(2) a`);
  await settled(page);
  assert.match(await figures(), /3,350 packets/);
  assert.match(await page.$eval("tr.is-chosen", (each) => each.innerText), /^gateway-out/);
  await page.close();
});

test("views that add rows up say so, until a sensor is chosen", async () => {
  const { page, show } = await openReport(browser, fixture("sensors"));
  const note = "A flow that several sensors saw is counted once for each of them";
  const bytes = () => page.$eval(".ranking .number", (each) => each.innerText);
  for (const view of ["talkers", "hosts", "host/10.2.1.2", "services", "queues", "latency"]) {
    await show(`#/${view}`);
    assert.ok((await textOf(page)).includes(note), view);
  }
  await show('#/hosts?where=sensor+==+"gateway-in"');
  assert.ok(!(await textOf(page)).includes(note));
  await show("#/overview");
  assert.ok((await textOf(page)).includes(note));
  assert.equal(await bytes(), "17.1\u00a0MB");
  await page.select(".sensor-choice", "gateway-out");
  await page.waitForFunction(() => window.location.hash.includes("sensor=gateway-out"));
  await settled(page);
  assert.ok(!(await textOf(page)).includes(note));
  assert.equal(await bytes(), "7.96\u00a0MB");
  const link = await page.$eval('#views a[href^="#/hosts"]', (each) => each.hash);
  assert.equal(link, "#/hosts?sensor=gateway-out");
  await show("#/host/10.2.1.2?sensor=gateway-out");
  const received = await page.$eval(".figures", (each) => each.innerText);
  assert.match(received, /Received\s+7.96\sMB\s+Flows\s+3\s/);
  await page.close();
});

test("alerts of sensors are listed with their sensor", async () => {
  const { page, show } = await openReport(browser, fixture("sensors"));
  await show("#/alerts");
  const own = await cells(page, "Past alerts");
  assert.deepEqual([own.length, own[0][0]], [1, "sensor silent"]);
  const past = await cells(page, "Past alerts of sensors");
  assert.ok(past.length > 0 && past.every((row) => row[0] === "large flow"));
  assert.ok(past.every((row) => row[1] === "office"));
  const firing = (await cells(page, "Firing alerts")).length;
  const badge = await page.$eval(".badge", (each) => each.innerText);
  assert.equal(badge, String(firing));
  await page.close();
});

test("before a sensor is heard the view says what to check", async () => {
  const data = fixture("sensors");
  for (const table of Object.values(data.tables)) table.rows = [];
  const { page, complaints, show } = await openReport(browser, data, { size: "phone" });
  await show("#/sensors");
  const text = await textOf(page);
  assert.match(text, /No sensor was heard so far/);
  assert.match(text, /servers = \["nats:\/\/127.0.0.1:4222"\]/);
  assert.match(text, /No flow was seen at several sensors/);
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360);
  assert.deepEqual(complaints, []);
  await page.close();
});

test("hostile names of sensors are text, and can be chosen", async () => {
  const data = fixture("sensors");
  const name = `${HOSTILE}"\\\u202e`;
  for (const { columns, rows } of Object.values(data.tables)) {
    const at = columns.indexOf("sensor");
    for (const row of rows) if (at >= 0 && row[at] === "gateway-out") row[at] = name;
  }
  const { page, complaints, show } = await openReport(browser, data, { size: "phone" });
  page.on("dialog", (dialog) => {
    complaints.push(`dialog ${dialog.message()}`);
    void dialog.dismiss();
  });
  await show("#/sensors");
  assert.equal(await page.$("img"), null);
  const text = await textOf(page);
  assert.ok(text.includes(HOSTILE) && !/\u202e/.test(text));
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360);
  await show("#/flows");
  await page.select(".sensor-choice", name);
  await page.waitForFunction(() => window.location.hash.includes("sensor="));
  await settled(page);
  assert.match(await page.$eval(".pager", (each) => each.innerText), /of 3 flows/);
  assert.deepEqual(complaints, []);
  await page.close();
});

test("the rate now is that of all sensors, and of one where it is chosen", async () => {
  const data = fixture("sensors");
  Object.assign(data.state, { mode: "live", is_over: false });
  const { columns, rows } = data.tables.traffic;
  const start = (BigInt(data.state.now) / 1_000_000_000n) * 1_000_000_000n;
  const put = (sensor, seconds, packets) => {
    const row = columns.map(() => 0);
    row[columns.indexOf("sensor")] = sensor;
    row[columns.indexOf("start_ns")] = String(start + BigInt(seconds) * 1_000_000_000n);
    row[columns.indexOf("period_ns")] = 1_000_000_000;
    row[columns.indexOf("packets")] = packets;
    rows.push(row);
  };
  put("gateway-in", 1, 500);
  put("gateway-out", 1, 400);
  put("gateway-in", 2, 510);
  data.state.now = String(start + 2_000_000_000n);
  const server = await serve(data);
  const page = await browser.newPage();
  await page.setViewport(SIZES.laptop);
  for (const [query, wanted] of [
    ["", "900 pkt/s"],
    ["?sensor=gateway-out", "400 pkt/s"],
  ]) {
    await page.goto("about:blank");
    await page.goto(`${server.address}#/overview${query}`);
    await page.waitForSelector("main .view");
    await settled(page);
    const text = await page.$eval(".figures", (each) => each.innerText);
    assert.ok(text.replaceAll("\u00a0", " ").includes(wanted), text);
    assert.ok(!text.includes("Active flows"));
  }
  await page.close();
  await server.close();
});
