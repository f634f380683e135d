import assert from "node:assert/strict";
import { test } from "node:test";
import { carried, formatRoute, parseRoute } from "../../src/route.ts";
import { boundsOf, chartBounds, stepMs, stepText } from "../../src/range.ts";
import type { State, TableInfo } from "../../src/source/source.ts";

test("an address is read back as it was written", () => {
  const id = "1:G1Z5gnRlaQ5nXqPj2N8/ejVH1xI=";
  const where = 'server_name contains "a&b=c#d/é%" and port == 443';
  const hash = formatRoute(["flow", id], { where, sort: "-bytes", none: undefined, empty: "" });
  assert.deepEqual(parseRoute(hash), { path: ["flow", id], query: { where, sort: "-bytes" } });
});

test("no address is the overview", () => {
  assert.deepEqual(parseRoute(""), { path: ["overview"], query: {} });
  assert.deepEqual(parseRoute("#/"), { path: ["overview"], query: {} });
});

test("a broken escape is kept", () => {
  assert.deepEqual(parseRoute("#/host/%zz").path, ["host", "%zz"]);
});

test("only the time range is carried to other views", () => {
  const query = { range: "1h", where: "tcp", page: "2" };
  assert.equal(formatRoute(["hosts"], carried(query)), "#/hosts?range=1h");
});

const state = { mode: "live", now: "1000000000000" } as State;

test("a live range ends now", () => {
  const route = { path: ["flows"], query: { range: "5m" } };
  assert.deepEqual(boundsOf(route, state), { from: "700000000000" });
  assert.deepEqual(boundsOf({ path: [], query: { from: "1", to: "2" } }, state), {
    from: "1",
    to: "2",
  });
  assert.deepEqual(boundsOf({ path: [], query: { range: "all" } }, state), {});
});

test("a chart begins with the data where that is shorter than the range", () => {
  const table = { first: "500" } as TableInfo;
  assert.deepEqual(chartBounds(table, { from: "100" }), { from: "500", to: undefined });
  assert.deepEqual(chartBounds(table, { from: "600", to: "700" }), { from: "600", to: "700" });
  assert.deepEqual(chartBounds(table, {}), {});
});

test("a step holds whole periods and shows the range in few points", () => {
  const table = { first: "0", last: "3600000000000" } as TableInfo;
  assert.equal(stepMs(table, {}, 1000), 30_000);
  assert.equal(stepMs(table, { from: "3590000000000" }, 100), 100);
  assert.equal(stepMs(table, { from: "3590000000000" }, 1000), 1000);
  assert.equal(stepText(30_000), "30s");
  assert.equal(stepText(100), "100ms");
});
