import assert from "node:assert/strict";
import { test } from "node:test";
import { recordsOf } from "../../src/source/records.ts";
import { type ReportData, ReportSource } from "../../src/source/report.ts";
import type { Column, Row, TableInfo } from "../../src/source/source.ts";

const COLUMNS: Column[] = [
  { name: "community_id", type: "text" },
  { name: "src_ip", type: "text" },
  { name: "dst_ip", type: "text" },
  { name: "first_ns", type: "timestamp" },
  { name: "last_ns", type: "timestamp" },
  { name: "src_bytes", type: "u64" },
  { name: "dst_bytes", type: "u64" },
  { name: "app_protocol", type: "text", nullable: true },
];
const SECOND = 1_000_000_000n;
const at = (seconds: number): string => String(1_795_299_098n * SECOND + BigInt(seconds) * SECOND);
const ROWS: Row[] = [
  ["1:a", "10.0.0.1", "10.0.0.2", at(0), at(1), 100, 50, "tls"],
  ["1:b", "10.0.0.1", "10.0.0.3", at(1), at(2), 10, 0, null],
  ["1:c", "10.0.0.2", "10.0.0.3", at(2), at(12), 1000, 0, "tls"],
  ["1:d", "10.0.0.4", "10.0.0.1", null, null, 1, 1, "dns"],
];

function source(): ReportSource {
  const flows: TableInfo = {
    name: "flows",
    about: "",
    rows: 4,
    received: 4,
    evicted: 0,
    time: "last_ns",
    first: at(1),
    last: at(12),
    columns: COLUMNS,
  };
  const state = { mode: "report", sequence: 1, tables: [flows] } as unknown as ReportData["state"];
  const tables = { flows: { columns: COLUMNS.map((column) => column.name), rows: ROWS } };
  return new ReportSource({ state, tables, health: null, packetlog: null });
}

const idsOf = (rows: readonly Row[]): unknown[] => rows.map((row) => row[0]);

test("rows are sorted by an alias, missing last, and cut into pages", async () => {
  const all = await source().rows("flows", { sort: "-bytes" });
  assert.deepEqual(idsOf(all.rows), ["1:c", "1:a", "1:b", "1:d"]);
  const page = await source().rows("flows", { sort: "-bytes", limit: 2, offset: 2 });
  assert.deepEqual(idsOf(page.rows), ["1:b", "1:d"]);
  assert.equal(page.matched, 4);
  const byTime = await source().rows("flows", { sort: "-first_ns" });
  assert.deepEqual(idsOf(byTime.rows), ["1:c", "1:b", "1:a", "1:d"]);
});

test("a time range has its start and not its end", async () => {
  const found = await source().rows("flows", { from: at(1), to: at(2) });
  assert.deepEqual(idsOf(found.rows), ["1:a"]);
  const written = await source().rows("flows", { from: "2026-11-21T22:11:40Z" });
  assert.deepEqual(idsOf(written.rows), ["1:b", "1:c"]);
});

test("columns are chosen by name", async () => {
  const found = await source().rows("flows", { columns: "bytes,community_id", limit: 1 });
  assert.deepEqual(found.rows, [[150, "1:a"]]);
});

test("an unknown column or table is refused with what to try", async () => {
  await assert.rejects(source().rows("flows", { sort: "src_byte" }), /src_bytes/);
  await assert.rejects(source().rows("cca", {}), /no table cca/);
});

test("groups count, sum and keep times exact", async () => {
  const found = await source().groups("flows", {
    by: "app_protocol",
    sum: "bytes,src_bytes",
    min: "first_ns",
    max: "src_bytes",
    mean: "src_bytes",
    sort: "-sum_bytes",
  });
  assert.deepEqual(found.columns, [
    "app_protocol",
    "rows",
    "sum_bytes",
    "sum_src_bytes",
    "max_src_bytes",
    "min_first_ns",
    "mean_src_bytes",
  ]);
  assert.deepEqual(found.rows[0], ["tls", 2, 1150, 1100, 1000, at(0), 550]);
  assert.deepEqual(found.rows[1], [null, 1, 10, 10, 10, at(1), 10]);
  assert.equal(found.matched, 3);
});

test("series have every step, the largest names and the rest", async () => {
  const found = await source().series("flows", {
    value: "src_bytes",
    aggregate: "sum",
    by: "src_ip",
    series: 1,
    step: "5s",
  });
  assert.deepEqual(
    found.series.map((each) => each.name),
    ["10.0.0.2", "other"],
  );
  // Steps begin at whole multiples of their length since the epoch.
  assert.deepEqual(found.times, [at(-3), at(2), at(7), at(12)]);
  assert.deepEqual(found.series[0]!.values, [null, null, null, 1000]);
  assert.deepEqual(found.series[1]!.values, [100, 10, null, null]);
  const counted = await source().series("flows", {
    value: "src_bytes",
    aggregate: "count",
    step: "1h",
  });
  assert.deepEqual(counted.series, [{ name: "src_bytes", values: [3] }]);
});

test("a step that is too short is refused", async () => {
  const query = { value: "src_bytes", aggregate: "sum" as const, step: "1us" };
  await assert.rejects(source().series("flows", query), /longer step/);
});

test("a host counts both ends of its flows", async () => {
  const all = recordsOf(await source().hosts({}));
  const hosts = all.filter((each) => each.host === "10.0.0.1");
  assert.deepEqual(
    [hosts[0]!.bytes_sent, hosts[0]!.bytes_received, hosts[0]!.flows, hosts[0]!.peers],
    [111, 51, 3, 3],
  );
  const dns = recordsOf(await source().hosts({ where: "app_protocol == dns", sort: "host" }));
  assert.deepEqual(
    dns.map((each) => each.host),
    ["10.0.0.1", "10.0.0.4"],
  );
  const largest = recordsOf(await source().hosts({ limit: 1 }));
  assert.equal(largest[0]!.host, "10.0.0.2");
});

test("a flow and a host gather what is said of them", async () => {
  const flow = await source().flow("1:a");
  assert.deepEqual(idsOf(flow.tables.flows!.rows), ["1:a"]);
  const other = await source().flow("1:a", at(5));
  assert.deepEqual(other.tables.flows!.rows, []);
  const host = await source().host("10.0.0.3", {});
  assert.deepEqual(idsOf(host.tables.flows!.rows), ["1:b", "1:c"]);
  const hostile = await source().host('x" or src_ip contains "1', {});
  assert.deepEqual(hostile.tables.flows!.rows, []);
});
