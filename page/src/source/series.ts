// Values over time, for reports.

import { parseNumber, parseTime } from "./literal.ts";
import { type MemoryTable, needField, selected, totalOf } from "./query.ts";
import type { Cell, Row, Series, SeriesQuery } from "./source.ts";

/** More steps than a screen has points are refused: the step is too short for the range. */
const STEPS_MAX = 10_000;

function stepOf(text: string): bigint {
  const step = parseNumber(text);
  if (step === null || !step.isDuration || step.value < 1) {
    throw new Error(`"${text}" is not a step; write a duration such as 10s`);
  }
  return BigInt(Math.round(step.value));
}

function floorTo(time: bigint, step: bigint): bigint {
  return time - (((time % step) + step) % step);
}

interface Line {
  name: string;
  weight: number;
  totals: Map<bigint, ReturnType<typeof totalOf>>;
}

export function querySeries(table: MemoryTable, query: SeriesQuery): Series {
  const { columns, time } = table.info;
  if (time === null) throw new Error(`the table ${table.info.name} has no time column`);
  const step = stepOf(query.step);
  const stamp = needField(time, columns).read[0]!;
  const value = needField(query.value, columns);
  const by = query.by === undefined ? null : needField(query.by, columns).read[0]!;
  const found = selected(table, query).filter((row) => stamp(row) !== null);
  const lines = new Map<string, Line>();
  const place = (row: Row): bigint => floorTo(BigInt(stamp(row)!), step);
  for (const row of found) {
    const name = by === null ? query.value : nameOf(by(row));
    let line = lines.get(name);
    if (line === undefined) {
      line = { name, weight: 0, totals: new Map() };
      lines.set(name, line);
    }
    const cell = value.read[0]!(row);
    line.weight += query.aggregate === "count" ? 1 : typeof cell === "number" ? Math.abs(cell) : 0;
    addTo(line, place(row), cell, () => totalOf(value));
  }
  const keep = query.series ?? 8;
  const ranked = [...lines.values()].sort((a, b) => b.weight - a.weight);
  const times = timesOf(found, place, step, query);
  const series = ranked
    .slice(0, keep)
    .map((line) => ({
      name: line.name,
      values: times.map((at) => numberOrNull(line.totals.get(at)?.value(query.aggregate))),
    }));
  if (ranked.length > keep) {
    const names = new Set(ranked.slice(0, keep).map((line) => line.name));
    const other: Line = { name: "other", weight: 0, totals: new Map() };
    for (const row of found) {
      if (names.has(nameOf(by!(row)))) continue;
      addTo(other, place(row), value.read[0]!(row), () => totalOf(value));
    }
    series.push({
      name: "other",
      values: times.map((at) => numberOrNull(other.totals.get(at)?.value(query.aggregate))),
    });
  }
  return {
    times: times.map(String),
    step_ns: Number(step),
    series,
    matched: found.length,
    searched: table.rows.length,
  };
}

function nameOf(cell: Cell): string {
  return cell === null ? "" : String(cell);
}

function numberOrNull(cell: Cell | undefined): number | null {
  return typeof cell === "number" ? cell : null;
}

function addTo(line: Line, at: bigint, cell: Cell, make: () => ReturnType<typeof totalOf>): void {
  let total = line.totals.get(at);
  if (total === undefined) {
    total = make();
    line.totals.set(at, total);
  }
  total.add(cell);
}

function timesOf(
  rows: Row[],
  place: (row: Row) => bigint,
  step: bigint,
  query: SeriesQuery,
): bigint[] {
  if (rows.length === 0) return [];
  let first = place(rows[0]!);
  let last = first;
  for (const row of rows) {
    const at = place(row);
    if (at < first) first = at;
    if (at > last) last = at;
  }
  const from = query.from === undefined ? null : parseTime(query.from);
  if (from !== null && floorTo(from, step) < first) first = floorTo(from, step);
  const count = (last - first) / step + 1n;
  if (count > BigInt(STEPS_MAX)) {
    throw new Error(`${count} steps of ${query.step}; at most ${STEPS_MAX}: take a longer step`);
  }
  return Array.from({ length: Number(count) }, (_, i) => first + step * BigInt(i));
}
