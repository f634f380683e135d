// Rows by the names of their columns.

import type { Cell, Part } from "./source.ts";

export type Rec = Readonly<Record<string, Cell>>;

export function recordsOf(part: Pick<Part, "columns" | "rows">): Rec[] {
  return part.rows.map((row) =>
    Object.fromEntries(part.columns.map((name, i) => [name, row[i] ?? null])),
  );
}

export function textOf(record: Rec, name: string): string | null {
  const cell = record[name] ?? null;
  return cell === null ? null : String(cell);
}

export function numberOf(record: Rec, name: string): number | null {
  const cell = record[name];
  return typeof cell === "number" ? cell : null;
}

/** A missing number counts as nothing in a sum. */
export function sumOf(record: Rec, ...names: string[]): number {
  return names.reduce((sum, name) => sum + (numberOf(record, name) ?? 0), 0);
}
