// Rows, groups and series over tables in memory: what the server computes, for reports.

import { type Field, fieldOf, nearestName } from "./fields.ts";
import { compileFilter } from "./filter.ts";
import { parseTime } from "./literal.ts";
import type {
  Bounds,
  Cell,
  Column,
  GroupsQuery,
  Row,
  Rows,
  RowsQuery,
  TableInfo,
} from "./source.ts";

export interface MemoryTable {
  info: TableInfo;
  rows: Row[];
}

export function needField(name: string, columns: readonly Column[]): Field {
  const field = fieldOf(name, columns);
  if (field !== null) return field;
  const nearest = nearestName(name, columns);
  throw new Error(`no column "${name}" in this table${nearest ? `; try "${nearest}"` : ""}`);
}

function boundOf(text: string | undefined): string | null {
  if (text === undefined || text === "") return null;
  const time = parseTime(text);
  if (time === null) throw new Error(`"${text}" is not a time; write 2026-01-31T10:00:00Z`);
  return String(time);
}

/** Rows that pass the filter and lie in the time range. */
export function selected(
  table: MemoryTable,
  query: Bounds & { where?: string | undefined },
): Row[] {
  const { columns, time } = table.info;
  const passes = compileFilter(query.where ?? "", columns);
  const from = boundOf(query.from);
  const to = boundOf(query.to);
  const timeIndex = columns.findIndex((column) => column.name === time);
  if (timeIndex < 0 || (from === null && to === null)) return table.rows.filter(passes);
  return table.rows.filter((row) => {
    const cell = row[timeIndex];
    if (cell === null || cell === undefined) return false;
    const stamp = String(cell);
    const isInside =
      (from === null || !isBefore(stamp, from)) && (to === null || isBefore(stamp, to));
    return isInside && passes(row);
  });
}

/** Stamps of the same length sort as text, many times faster than as numbers of 64 bits. */
function isBefore(a: string, b: string): boolean {
  const isText = a.length === b.length && a[0] !== "-" && b[0] !== "-";
  return isText ? a < b : BigInt(a) < BigInt(b);
}

function compareCells(a: Cell, b: Cell, isTime: boolean): number {
  if (a === b) return 0;
  if (isTime) return isBefore(String(a), String(b)) ? -1 : 1;
  return a! < b! ? -1 : 1;
}

/** `-bytes,first_ns`: missing values come last in either direction. */
export function sorted(rows: Row[], sort: string | undefined, columns: readonly Column[]): Row[] {
  if (sort === undefined || sort === "") return rows;
  const keys = sort.split(",").map((part) => {
    const isDown = part.startsWith("-");
    const field = needField(isDown ? part.slice(1) : part, columns);
    return { read: field.read[0]!, isTime: field.type === "timestamp", factor: isDown ? -1 : 1 };
  });
  return [...rows].sort((left, right) => {
    for (const key of keys) {
      const a = key.read(left);
      const b = key.read(right);
      if (a === null || b === null) {
        if (a !== b) return a === null ? 1 : -1;
        continue;
      }
      const order = compareCells(a, b, key.isTime);
      if (order !== 0) return order * key.factor;
    }
    return 0;
  });
}

export function queryRows(table: MemoryTable, query: RowsQuery, sequence: number): Rows {
  const found = selected(table, query);
  const { columns } = table.info;
  const offset = query.offset ?? 0;
  const page = sorted(found, query.sort, columns).slice(offset, offset + (query.limit ?? 100));
  const names = query.columns?.split(",") ?? columns.map((column) => column.name);
  const fields = names.map((name) => needField(name, columns));
  const rows = page.map((row) => fields.map((field) => field.read[0]!(row)));
  const searched = table.rows.length;
  return { columns: names, rows, matched: found.length, searched, sequence };
}

class Total {
  private sum = 0;
  private count = 0;
  private least: Cell = null;
  private most: Cell = null;

  constructor(private readonly isTime: boolean) {}

  add(cell: Cell): void {
    if (cell === null) return;
    this.count += 1;
    if (typeof cell === "number") this.sum += cell;
    if (this.least === null || compareCells(cell, this.least, this.isTime) < 0) this.least = cell;
    if (this.most === null || compareCells(cell, this.most, this.isTime) > 0) this.most = cell;
  }

  value(kind: string): Cell {
    if (kind === "count") return this.count;
    if (kind === "min") return this.least;
    if (kind === "max") return this.most;
    if (this.count === 0) return null;
    return kind === "sum" ? this.sum : this.sum / this.count;
  }
}

export function totalOf(field: Field): Total {
  return new Total(field.type === "timestamp");
}

function aggregatesOf(query: GroupsQuery, columns: readonly Column[]) {
  return (["sum", "max", "min", "mean"] as const).flatMap((kind) =>
    (query[kind] ?? "")
      .split(",")
      .filter((name) => name !== "")
      .map((name) => ({ kind, name, field: needField(name, columns) })),
  );
}

export function queryGroups(table: MemoryTable, query: GroupsQuery, sequence: number): Rows {
  const { columns } = table.info;
  const keys = query.by.split(",").map((name) => needField(name, columns));
  const aggregates = aggregatesOf(query, columns);
  const found = selected(table, query);
  const groups = new Map<string, { key: Cell[]; count: number; totals: Total[] }>();
  for (const row of found) {
    const key = keys.map((field) => field.read[0]!(row));
    const name = JSON.stringify(key);
    let group = groups.get(name);
    if (group === undefined) {
      group = { key, count: 0, totals: aggregates.map(({ field }) => totalOf(field)) };
      groups.set(name, group);
    }
    group.count += 1;
    aggregates.forEach(({ field }, i) => group.totals[i]!.add(field.read[0]!(row)));
  }
  const outColumns: Column[] = [
    ...keys.map((field) => ({ name: field.name, type: field.type })),
    { name: "rows", type: "u64" },
    ...aggregates.map(({ kind, name, field }) => ({
      name: `${kind}_${name}`,
      type: kind === "mean" ? ("f64" as const) : field.type,
    })),
  ];
  const rows = [...groups.values()].map((group) => [
    ...group.key,
    group.count,
    ...group.totals.map((total, i) => total.value(aggregates[i]!.kind)),
  ]);
  const page = sorted(rows, query.sort ?? "-rows", outColumns).slice(0, query.limit ?? 100);
  return {
    columns: outColumns.map((column) => column.name),
    rows: page,
    matched: groups.size,
    searched: table.rows.length,
    sequence,
  };
}
