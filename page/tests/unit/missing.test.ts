import assert from "node:assert/strict";
import { test } from "node:test";
import { missingOf } from "../../src/missing.ts";
import { type ReportData, ReportSource } from "../../src/source/report.ts";
import type { History, State, TableInfo } from "../../src/source/source.ts";

function flows(rows: number, evicted: number): TableInfo {
  const received = rows + evicted;
  const [first, last] = ["1000", "2000"];
  return { name: "flows", about: "", rows, received, evicted, time: "t", first, last, columns: [] };
}

function state(mode: State["mode"], table: TableInfo, history: History | null = null): State {
  return { mode, sequence: 1, tables: [table], history } as unknown as State;
}

test("rows that left memory are missing from ranges that begin before the others", () => {
  const live = state("live", flows(10, 5));
  const found = [{ table: "flows", held: 10, all: 15, since: "1000" }];
  assert.deepEqual(missingOf(["flows", "cca"], live, {}), found);
  assert.deepEqual(missingOf(["flows"], live, { from: "999" }), found);
  assert.deepEqual(missingOf(["flows"], live, { from: "1000" }), []);
  assert.deepEqual(missingOf(["cca"], live, {}), []);
  assert.deepEqual(missingOf(["flows"], state("live", flows(15, 0)), {}), []);
});

test("rows that are on disk are not missing where they are asked for", () => {
  const history = { first: "1", last: "2", size_bytes: 1, missed_rows: 0, trouble: null };
  const live = state("live", flows(10, 5), history);
  assert.deepEqual(missingOf(["flows"], live, { from: "1" }), []);
});

test("a report lacks what did not fit and what its run evicted, of any time", async () => {
  const tables = { flows: { columns: ["t"], rows: [["1500"], ["1600"]] } };
  const data = { state: state("report", flows(10, 5)), tables, health: null, packetlog: null };
  const shown = await new ReportSource(data as ReportData).state();
  const found = [{ table: "flows", held: 2, all: 15, since: null }];
  assert.deepEqual(missingOf(["flows"], shown, { from: "1900" }), found);
});
