// What a name in a query stands for: a column, or an alias that is made of several.

import { type Cell, type Column, type ColumnType, type Row } from "./source.ts";

export interface Field {
  name: string;
  type: ColumnType;
  isAddress: boolean;
  /** Several for `ip` and `port`, where one match suffices; one otherwise. */
  read: ((row: Row) => Cell)[];
}

// Maps, as an object would know names such as `constructor`.
const ANY_OF = new Map([
  ["ip", ["src_ip", "dst_ip", "host"]],
  ["port", ["src_port", "dst_port"]],
]);
const SUM_OF = new Map([
  ["bytes", ["src_bytes", "dst_bytes", "bytes_sent", "bytes_received"]],
  ["packets", ["src_packets", "dst_packets", "packets_sent", "packets_received"]],
]);

/** Whether every value is an address; `host` may be a name in tables of other programs. */
export function holdsAddresses(name: string): boolean {
  return name === "ip" || name.endsWith("_ip");
}

function isAddressName(name: string): boolean {
  return name === "host" || holdsAddresses(name);
}

function sumOf(indexes: number[]): (row: Row) => Cell {
  return (row) => {
    let sum: number | null = null;
    for (const index of indexes) {
      const cell = row[index];
      if (typeof cell === "number") sum = (sum ?? 0) + cell;
    }
    return sum;
  };
}

/** A real column comes before an alias of the same name. */
export function fieldOf(name: string, columns: readonly Column[]): Field | null {
  const index = columns.findIndex((column) => column.name === name);
  const isAddress = isAddressName(name);
  if (index >= 0) {
    const type = columns[index]!.type;
    return { name, type, isAddress, read: [(row) => row[index] ?? null] };
  }
  const present = (names: string[] | undefined): number[] =>
    (names ?? [])
      .map((each) => columns.findIndex((column) => column.name === each))
      .filter((each) => each >= 0);
  const any = present(ANY_OF.get(name));
  if (any.length > 0) {
    const type = columns[any[0]!]!.type;
    return { name, type, isAddress, read: any.map((each) => (row: Row) => row[each] ?? null) };
  }
  const summed = present(SUM_OF.get(name));
  if (summed.length > 0) return { name, type: "u64", isAddress, read: [sumOf(summed)] };
  return null;
}

/** All names that a query over these columns may use, aliases last. */
export function fieldNames(columns: readonly Column[]): string[] {
  const names = columns.map((column) => column.name);
  const aliases = [...ANY_OF.keys(), ...SUM_OF.keys()].filter(
    (alias) => !names.includes(alias) && fieldOf(alias, columns) !== null,
  );
  return [...names, ...aliases];
}

function distance(a: string, b: string): number {
  let before = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i += 1) {
    const line = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const change = before[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      line.push(Math.min(change, before[j]! + 1, line[j - 1]! + 1));
    }
    before = line;
  }
  return before[b.length]!;
}

/** The name that was probably meant, if one is near enough to be worth naming. */
export function nearestName(name: string, columns: readonly Column[]): string | null {
  const ranked = fieldNames(columns)
    .map((each) => ({ each, far: distance(name, each) }))
    .sort((a, b) => a.far - b.far);
  const best = ranked[0];
  if (best !== undefined && best.far <= Math.max(2, name.length / 3)) return best.each;
  return fieldNames(columns).find((each) => each.includes(name)) ?? null;
}
