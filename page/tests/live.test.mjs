// The page of a server: updates, lost connection, overload, the packet log, under its strict CSP.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fixture, launch, settled, SIZES } from "./browser.mjs";
import { serve } from "./serve.mjs";

let browser;

before(async () => {
  browser = await launch();
});
after(() => browser.close());

function liveData() {
  const data = fixture("office");
  Object.assign(data.state, { mode: "live", is_over: false, inputs: ["eth0"] });
  return data;
}

async function open(address, hash = "") {
  const page = await browser.newPage();
  const complaints = [];
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.setViewport(SIZES.laptop);
  await page.goto(address + hash);
  await page.waitForSelector("main .view");
  await settled(page);
  return { page, complaints };
}

test("the page runs under a policy without inline scripts and styles, and updates", async () => {
  const data = liveData();
  const server = await serve(data);
  const { page, complaints } = await open(server.address);
  const received = () => page.$eval(".figures", (each) => each.innerText);
  assert.match(await received(), /4,944/);
  data.state.packets.received = 5000;
  server.announce();
  await page.waitForFunction(() => document.querySelector(".figures").innerText.includes("5,000"));
  assert.deepEqual(complaints, []);
  await page.close();
  await server.close();
});

test("rows that left memory are reported where figures lack them", async () => {
  const data = liveData();
  const flows = data.state.tables.find((table) => table.name === "flows");
  flows.evicted = 1000;
  const server = await serve(data);
  const { page } = await open(server.address, "#/talkers?range=all");
  const hint = () => page.$eval(".content", (each) => each.innerText);
  assert.match(await hint(), /In memory are flows 312 of 1,312 rows, since \d\d:\d\d:\d\d/);
  await page.goto(`${server.address}#/talkers?from=${flows.first}`);
  await settled(page);
  assert.doesNotMatch(await hint(), /In memory/);
  await page.close();
  await server.close();
});

test("views ask at most once a second, however often the server speaks", async () => {
  const server = await serve(liveData());
  const { page } = await open(server.address, "#/flows");
  const count = () => server.asked.filter((url) => url.includes("/tables/flows?")).length;
  const start = count();
  for (let i = 0; i < 20; i += 1) {
    server.announce();
    await new Promise((done) => setTimeout(done, 100));
  }
  const more = count() - start;
  assert.ok(more >= 1 && more <= 3, `${more} questions in 2 s`);
  await page.close();
  await server.close();
});

test("updates are paused and resumed", async () => {
  const data = liveData();
  const server = await serve(data);
  const { page } = await open(server.address, "#/flows");
  await page.click(".pause");
  server.asked.length = 0;
  server.announce();
  await new Promise((done) => setTimeout(done, 1300));
  assert.deepEqual(server.asked, []);
  assert.match(await page.$eval(".status", (each) => each.innerText), /Paused/);
  await page.click(".pause");
  await new Promise((done) => setTimeout(done, 300));
  assert.notEqual(server.asked.length, 0);
  await page.close();
  await server.close();
});

test("another run with other columns is taken up after a restart", async () => {
  const server = await serve(liveData());
  const { page } = await open(server.address, "#/queues");
  assert.match(await page.$eval("main", (each) => each.innerText), /\[cca\]/);
  await server.close();
  const other = fixture("queue");
  Object.assign(other.state, { mode: "live", is_over: false });
  const again = await serve(other, server.port);
  await page.waitForFunction(() => document.querySelector("main").innerText.includes("CBIQ"));
  await page.close();
  await again.close();
});

test("a lost connection is said, and found again without a click", async () => {
  const server = await serve(liveData());
  const { page } = await open(server.address, "#/flows");
  const { port } = server;
  await server.close();
  await page.waitForSelector(".banner-error");
  assert.match(await page.$eval(".banner-error", (each) => each.innerText), /Connection lost/);
  assert.notEqual(await page.$("main.is-stale"), null);
  const again = await serve(liveData(), port);
  await page.waitForFunction(() => document.querySelector(".banner-error") === null);
  await page.close();
  await again.close();
});

test("dropped packets raise a banner with what to do", async () => {
  const data = liveData();
  data.state.packets.dropped = 494;
  const server = await serve(data);
  const { page } = await open(server.address);
  const banner = await page.$eval(".banner-warning", (each) => each.innerText);
  assert.match(banner, /494 of 4,944 packets \(10\.0.%\) were dropped/);
  assert.match(banner, /buffer-size/);
  await page.close();
  await server.close();
});

test("a drill is named above every view, with what it simulates", async () => {
  const data = liveData();
  data.state.drills = ["drop=1000", "<b>fault</b>"];
  const server = await serve(data);
  for (const hash of ["", "#/flows", "#/health"]) {
    const { page, complaints } = await open(server.address, hash);
    const banner = await page.$eval(".banner-warning", (each) => each.innerText);
    assert.match(banner, /Drill: this run simulates faults \(drop=1000, <b>fault<\/b>\)\./);
    assert.deepEqual(complaints, []);
    await page.close();
  }
  await server.close();
});

test("an error of the server is shown with what to try", async () => {
  const server = await serve(liveData());
  const { page } = await open(server.address, "#/flows?sort=src_byte");
  assert.match(await page.$eval(".state-error", (each) => each.innerText), /src_bytes/);
  await page.close();
  await server.close();
});

test("the packet log is searched, and its packets can be had as pcapng", async () => {
  const data = liveData();
  data.found = {
    columns: [
      "time_ns",
      "src_ip",
      "src_port",
      "dst_ip",
      "dst_port",
      "protocol",
      "length",
      "kept",
      "class",
    ],
    rows: [
      ["1795299098945723368", "10.20.0.11", 54416, "203.0.113.10", 5001, "tcp", 1514, 96, "benign"],
    ],
    matched: 1,
    is_cut: false,
  };
  const server = await serve(data);
  const { page, complaints } = await open(server.address, "#/packetlog");
  await page.type("input[name=host]", "10.20.0.11");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".log-found");
  assert.match(await page.$eval(".log-found", (each) => each.innerText), /1 packet matches/);
  const link = await page.$eval(".log-found a", (each) => each.getAttribute("href"));
  assert.equal(link, "api/v1/packetlog/pcapng?host=10.20.0.11");
  assert.ok(server.asked.some((url) => url.includes("packetlog/search?host=10.20.0.11&limit=500")));
  assert.deepEqual(complaints, []);
  await page.close();
  await server.close();
});

test("an alert leads to its flow and is counted in the navigation", async () => {
  const data = liveData();
  const flow = data.tables.flows.rows[0][0];
  const columns = [
    "time_ns",
    "name",
    "state",
    "severity",
    "table",
    "community_id",
    "host",
    "value",
    "text",
    "labels",
  ];
  data.tables.alerts = {
    columns,
    rows: [
      [
        data.state.now,
        "test rule",
        "firing",
        "critical",
        "flows",
        flow,
        null,
        1,
        "text of a test",
        "",
      ],
      [
        data.state.now,
        "other rule",
        "firing",
        "warning",
        "flows",
        null,
        "10.20.0.11",
        1,
        "old",
        "",
      ],
      [
        `${data.state.now}9`,
        "other rule",
        "resolved",
        "warning",
        "flows",
        null,
        "10.20.0.11",
        1,
        "new",
        "",
      ],
    ],
  };
  data.state.tables.push({
    name: "alerts",
    about: "",
    rows: 3,
    received: 3,
    evicted: 0,
    time: "time_ns",
    first: null,
    last: null,
    columns: columns.map((name) => ({
      name,
      type: name === "time_ns" ? "timestamp" : name === "value" ? "f64" : "text",
    })),
  });
  const server = await serve(data);
  const { page, complaints } = await open(server.address, "#/alerts");
  assert.equal(await page.$eval(".badge", (each) => each.innerText), "1");
  await page.click("main a.row-link");
  await settled(page);
  const hash = await page.evaluate(() => window.location.hash);
  assert.ok(decodeURIComponent(hash).includes(flow));
  assert.deepEqual(complaints, []);
  await page.close();
  await server.close();
});
