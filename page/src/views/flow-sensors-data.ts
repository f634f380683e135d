// One flow at several sensors: which rows are of it, and what each sensor saw.

import { type Rec, recordsOf, sumOf, textOf } from "../source/records.ts";
import type { Gathered, Part } from "../source/source.ts";

/** Clocks of sensors may differ by so much, as where the run joins flows. */
const SKEW_NS = 2_000_000_000n;
/** Tables by which the time of a flow is known, best first. */
const TIMED = ["flows", "classify", "latency"];

/** From the first packet to the last, at any sensor. */
export interface Span {
  first: bigint;
  last: bigint;
}

export interface Sighting {
  sensor: string;
  /** Rows of the flow table: several where the sensor cut the flow. */
  rows: Rec[];
  first: string | null;
  last: string | null;
  packets: number | null;
  srcPackets: number | null;
  dstPackets: number | null;
  bytes: number | null;
  end: string | null;
  verdict: Rec | null;
}

function spanOf(row: Rec): Span | null {
  const first = textOf(row, "first_ns");
  if (first === null) return null;
  return { first: BigInt(first), last: BigInt(textOf(row, "last_ns") ?? first) };
}

function meets(one: Span, other: Span): boolean {
  return one.first <= other.last + SKEW_NS && one.last + SKEW_NS >= other.first;
}

function rowsOf(gathered: Gathered, name: string): Rec[] {
  return recordsOf(gathered.tables[name] ?? { columns: [], rows: [] });
}

function timedRows(gathered: Gathered): Rec[] {
  const name = TIMED.find((each) => (gathered.tables[each]?.rows.length ?? 0) > 0);
  return name === undefined ? [] : rowsOf(gathered, name);
}

/**
 * The time of the flow that has a packet at `firstNs`, or of the first one, over all sensors: a
 * Community ID may come again later. Nothing where no row is of that time.
 */
export function occurrenceOf(gathered: Gathered, firstNs: string | undefined): Span | null {
  const spans = timedRows(gathered)
    .map(spanOf)
    .filter((span) => span !== null);
  const isTime = firstNs !== undefined && /^-?\d+$/.test(firstNs);
  let found = isTime ? { first: BigInt(firstNs), last: BigInt(firstNs) } : spans[0];
  let rest = spans;
  for (;;) {
    const near = found === undefined ? [] : rest.filter((span) => meets(span, found!));
    if (near.length === 0)
      return found === undefined || rest.length === spans.length ? null : found;
    rest = rest.filter((span) => !near.includes(span));
    for (const { first, last } of near) {
      found = {
        first: first < found!.first ? first : found!.first,
        last: last > found!.last ? last : found!.last,
      };
    }
  }
}

/** The rows of one flow at one sensor; those of tables without sensors stay as they are. */
export function rowsOfSensor(gathered: Gathered, sensor: string, span: Span | null): Gathered {
  const parts = Object.entries(gathered.tables).map(([name, part]): [string, Part] => {
    const at = part.columns.indexOf("sensor");
    // Times of alerts are those of their rules.
    const timeOf = (column: string): number =>
      TIMED.includes(name) ? part.columns.indexOf(column) : -1;
    const [first, last] = [timeOf("first_ns"), timeOf("last_ns")];
    const rows = part.rows.filter((row) => {
      if (at >= 0 && row[at] !== sensor) return false;
      if (span === null || first < 0 || row[first] === null) return true;
      const from = BigInt(row[first]!);
      return meets({ first: from, last: last < 0 ? from : BigInt(row[last] ?? from) }, span);
    });
    return [name, { ...part, rows }];
  });
  return { tables: Object.fromEntries(parts) };
}

function sightingOf(gathered: Gathered, sensor: string, span: Span | null): Sighting {
  const own = rowsOfSensor(gathered, sensor, span);
  const rows = rowsOf(own, "flows");
  const times = (name: string): bigint[] =>
    rows
      .map((row) => textOf(row, name))
      .filter((time) => time !== null)
      .map(BigInt);
  const least = times("first_ns").reduce<bigint | null>(
    (a, b) => (a === null || b < a ? b : a),
    null,
  );
  const most = times("last_ns").reduce<bigint | null>(
    (a, b) => (a === null || b > a ? b : a),
    null,
  );
  const sum = (...names: string[]): number | null =>
    rows.length === 0 ? null : rows.reduce((total, row) => total + sumOf(row, ...names), 0);
  const newest = rows.find((row) => most !== null && row.last_ns === String(most)) ?? rows.at(-1);
  return {
    sensor,
    rows,
    first: least?.toString() ?? null,
    last: most?.toString() ?? null,
    packets: sum("src_packets", "dst_packets"),
    srcPackets: sum("src_packets"),
    dstPackets: sum("dst_packets"),
    bytes: sum("src_bytes", "dst_bytes"),
    end: newest === undefined ? null : textOf(newest, "end_reason"),
    verdict: rowsOf(own, "classify").at(-1) ?? null,
  };
}

/** What each sensor saw, in the order of its first packet. */
export function sightingsOf(gathered: Gathered, span: Span | null): Sighting[] {
  const names = new Set<string>();
  for (const name of [...TIMED, "cca", "l4s"]) {
    const part = gathered.tables[name] ?? { columns: [], rows: [] };
    const at = part.columns.indexOf("sensor");
    const first = part.columns.indexOf("first_ns");
    for (const row of at < 0 ? [] : part.rows) {
      const time = row[first] ?? null;
      const one = time === null ? null : { first: BigInt(time), last: BigInt(time) };
      if (span === null || one === null || meets(one, span)) names.add(String(row[at]));
    }
  }
  return [...names]
    .map((sensor) => sightingOf(gathered, sensor, span))
    .sort((one, other) => {
      if (one.first === null || other.first === null) return one.first === null ? 1 : -1;
      return BigInt(one.first) < BigInt(other.first) ? -1 : 1;
    });
}
