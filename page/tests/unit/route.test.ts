import assert from "node:assert/strict";
import { test } from "node:test";
import { carried, formatRoute, parseRoute } from "../../src/route.ts";
import {
  boundsOf,
  chartBounds,
  rangesOf,
  stepMs,
  stepText,
  ticksPerAnswer,
} from "../../src/range.ts";
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

const state = { mode: "live", now: "1000000000000", history: null } as State;

test("a live range ends now", () => {
  const route = { path: ["flows"], query: { range: "5m" } };
  assert.deepEqual(boundsOf(route, state), { from: "700000000000" });
  assert.deepEqual(boundsOf({ path: [], query: { from: "1", to: "2" } }, state), {
    from: "1",
    to: "2",
  });
  assert.deepEqual(boundsOf({ path: [], query: { range: "all" } }, state), {});
});

const HOUR_NS = 3_600_000_000_000n;
const stored = {
  mode: "live",
  is_over: false,
  now: String(200n * HOUR_NS),
  history: { first: String(10n * HOUR_NS), last: String(199n * HOUR_NS) },
  tables: [
    { name: "flows", first: String(199n * HOUR_NS), stored_first: String(10n * HOUR_NS) },
  ] as TableInfo[],
} as State;

test("long ranges are offered where rows are stored, and all of them begin with the first", () => {
  const names = (of: State): string[] => rangesOf(of, "15m").map((range) => range.name);
  assert.deepEqual(names(stored), ["5m", "15m", "1h", "24h", "7d", "all"]);
  assert.deepEqual(names({ ...stored, history: null }), ["5m", "15m", "1h", "all"]);
  const all = { path: ["flows"], query: { range: "all" } };
  assert.deepEqual(boundsOf(all, stored), { from: stored.history!.first });
  assert.deepEqual(chartBounds(stored.tables[0]!, { from: "0" }), {
    from: stored.history!.first,
    to: undefined,
  });
});

test("what is read from files is asked less often", () => {
  const ticks = (hours: bigint): number =>
    ticksPerAnswer({ from: String((200n - hours) * HOUR_NS) }, stored);
  assert.deepEqual([ticks(1n), ticks(24n), ticks(0n)], [1, 30, 1]);
  assert.equal(ticksPerAnswer({ from: String(12n * HOUR_NS) }, { ...stored, history: null }), 1);
  assert.equal(ticksPerAnswer({}, stored), 1);
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
