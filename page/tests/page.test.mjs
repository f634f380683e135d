// Every view of a report in a browser: large and small, light and dark.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { fixture, launch, openReport, settled, SIZES } from "./browser.mjs";
import { VIEWS } from "./views.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let browser;

before(async () => {
  browser = await launch();
});
after(() => browser.close());

async function findings(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document));
  return violations
    .filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(
      ({ id, nodes }) =>
        `${id}: ${nodes
          .slice(0, 3)
          .map((node) => node.html)
          .join(" ")}`,
    );
}

for (const size of Object.keys(SIZES)) {
  for (const theme of ["light", "dark"]) {
    for (const [name, { report, hash }] of Object.entries(VIEWS)) {
      test(`${name}, ${size}, ${theme}: accessible, quiet, no wider than the screen`, async () => {
        const { page, complaints, show } = await openReport(browser, fixture(report), {
          size,
          theme,
        });
        await show(hash);
        const { width } = SIZES[size];
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `${wide} > ${width}`);
        assert.deepEqual(await findings(page), []);
        assert.deepEqual(complaints, []);
        await page.close();
      });
    }
  }
}

test("menus, suggestions, help and mistakes are accessible", async () => {
  const { page, show } = await openReport(browser, fixture("office"), { size: "phone" });
  await show("#/flows");
  await page.click(".menu");
  assert.deepEqual(await findings(page), []);
  await page.click(".menu");
  await page.click(".time-range button");
  assert.deepEqual(await findings(page), []);
  await page.keyboard.press("Escape");
  assert.equal(await page.$(".range-custom"), null);
  await page.click(".syntax summary");
  await page.type("input[role=combobox]", "src");
  await page.waitForSelector("[role=option]");
  await page.keyboard.press("ArrowDown");
  assert.deepEqual(await findings(page), []);
  await page.keyboard.press("Escape");
  await page.keyboard.press("Enter");
  await page.type("input[role=combobox]", " ==");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".field-error");
  assert.deepEqual(await findings(page), []);
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360);
  await page.close();
});

const HOSTILE = "<img src=x onerror=alert(1)>";

/** Every text of every row becomes hostile where it is not what views look up. */
function hostile() {
  const data = fixture("office");
  const kept = ["community_id", "src_ip", "dst_ip", "stage", "protocol"];
  for (const table of Object.values(data.tables)) {
    table.rows = table.rows.map((row) =>
      row.map((cell, i) =>
        typeof cell === "string" &&
        !/_ns$/.test(table.columns[i]) &&
        !kept.includes(table.columns[i])
          ? `${HOSTILE}\u202e\u001b${"x".repeat(300)}`
          : cell,
      ),
    );
  }
  data.state.inputs = [`${HOSTILE}</script><script>alert(2)</script>`];
  data.packetlog.classes[0].class = HOSTILE;
  return data;
}

for (const name of [
  "overview",
  "talkers",
  "flows",
  "flow",
  "hosts",
  "host",
  "services",
  "latency",
  "packetlog",
]) {
  test(`${name} shows hostile names as text`, async () => {
    const { page, complaints, show } = await openReport(browser, hostile(), { size: "phone" });
    page.on("dialog", (dialog) => {
      complaints.push(`dialog ${dialog.message()}`);
      void dialog.dismiss();
    });
    await show(name === "talkers" ? "#/talkers?by=server" : VIEWS[name].hash);
    assert.equal(await page.$("img, script:not([id]) ~ script ~ script"), null);
    const text = await page.evaluate(() => document.body.innerText);
    assert.ok(text.includes(HOSTILE), "the name is not shown");
    assert.ok(!/[\u202e\u001b]/.test(text), "a control character is not made visible");
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360);
    assert.deepEqual(complaints, []);
    await page.close();
  });
}

test("rows are reached by keyboard: arrows move, Enter opens", async () => {
  const { page, show } = await openReport(browser, fixture("office"));
  await show("#/flows?sort=-bytes");
  await page.focus("a.row-link[tabindex='0']");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  const href = await page.evaluate(() => document.activeElement.getAttribute("href"));
  await page.keyboard.press("Enter");
  await settled(page);
  assert.equal(await page.evaluate(() => window.location.hash), href);
  assert.match(await page.$eval("main", (main) => main.innerText), /10\.20\.0\.11:64860/);
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.close();
});

test("sorting by a header is kept in the address and in aria-sort", async () => {
  const { page, show } = await openReport(browser, fixture("office"));
  await show("#/flows");
  await page.evaluate(() => {
    [...document.querySelectorAll("button.sort")]
      .find((each) => each.innerText.startsWith("Bytes"))
      .click();
  });
  await settled(page);
  assert.match(await page.evaluate(() => window.location.hash), /sort=-bytes/);
  const sorted = await page.$$eval("[aria-sort=descending]", (all) =>
    all.map((each) => each.innerText),
  );
  assert.equal(sorted.length, 1);
  assert.match(sorted[0], /^Bytes/);
  await page.close();
});

test("a filter is applied at Enter, and a mistake is explained below it", async () => {
  const { page, show } = await openReport(browser, fixture("office"));
  await show("#/flows");
  const input = "input[role=combobox]";
  await page.type(input, "dst_prt == 443");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".field-error");
  assert.match(await page.$eval(".field-error", (each) => each.innerText), /dst_port/);
  await page.$eval(input, (each) => each.select());
  await page.type(input, "dst_port == 443");
  await page.keyboard.press("Enter");
  await settled(page);
  assert.match(await page.$eval(".pager", (each) => each.innerText), /of 14 flows/);
  await page.close();
});

test("a suggestion is taken with the arrow keys", async () => {
  const { page, show } = await openReport(browser, fixture("office"));
  await show("#/flows");
  await page.type("input[role=combobox]", "server_n");
  await page.waitForSelector("[role=option]");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.equal(await page.$eval("input[role=combobox]", (each) => each.value), "server_name ");
  await page.close();
});

test("dragging over a chart sets the time range of the page", async () => {
  const { page } = await openReport(browser, fixture("office"));
  await settled(page);
  const box = await (await page.$(".chart-frame .u-over")).boundingBox();
  await page.mouse.move(box.x + box.width * 0.2, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 40, { steps: 4 });
  await page.mouse.up();
  await settled(page);
  const hash = await page.evaluate(() => window.location.hash);
  assert.match(hash, /from=1795299\d{12}&to=1795299\d{12}$/);
  await page.close();
});

test("theme and time zone are switched and remembered", async () => {
  const { page } = await openReport(browser, fixture("office"), { theme: "light" });
  const press = (text) =>
    page.evaluate((wanted) => {
      [...document.querySelectorAll("button")]
        .find((each) => each.innerText.includes(wanted))
        .click();
    }, text);
  await press("Auto");
  await press("Light");
  await press("UTC");
  const look = () => page.evaluate(() => document.documentElement.dataset.theme);
  await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
  await page.reload();
  await page.waitForSelector("main .view");
  assert.equal(await look(), "dark");
  assert.match(await page.$eval(".top-actions", (each) => each.innerText), /Local/);
  await page.close();
});

test("a report that lacks rows says so on each view whose figures lack them", async () => {
  const data = fixture("office");
  data.tables.flows.rows = data.tables.flows.rows.slice(0, 100);
  data.tables.classify.rows[0][data.tables.classify.columns.indexOf("label")] = null;
  const { page, show } = await openReport(browser, data, { size: "phone" });
  const text = () => page.evaluate(() => document.body.innerText);
  for (const view of ["overview", "talkers", "flows", "hosts", "table/flows"]) {
    await show(`#/${view}`);
    assert.match(await text(), /This report holds flows 100 of 312 rows\./, view);
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360);
    assert.deepEqual(await findings(page), []);
  }
  await show("#/services");
  assert.doesNotMatch(await text(), /This report holds/);
  await show("#/overview");
  assert.match(await text(), /New hosts\s+first in the rows held/);
  const links = await page.$$eval(".first-seen a", (all) => all.map((each) => each.innerText));
  assert.ok(!links.includes("not recognised"), "no filter finds rows without a value");
  await page.close();
});
