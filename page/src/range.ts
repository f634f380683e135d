// Time ranges of the address: `range=15m`, or `from` and `to` in nanoseconds.

import type { Route } from "./route.ts";
import type { Bounds, State, TableInfo } from "./source/source.ts";

export interface Range {
  name: string;
  label: string;
  seconds: number | null;
}

const RANGES: Range[] = [
  { name: "5m", label: "5 min", seconds: 300 },
  { name: "15m", label: "15 min", seconds: 900 },
  { name: "1h", label: "1 h", seconds: 3600 },
  { name: "24h", label: "24 h", seconds: 86_400 },
  { name: "7d", label: "7 d", seconds: 604_800 },
  { name: "all", label: "All", seconds: null },
];
/** Longer ranges are offered where rows are stored, which memory is too small for. */
const MEMORY_MAX_S = 3600;
const SECOND_NS = 1_000_000_000n;

export function rangeName(route: Route, state: State): string {
  if (route.query.from !== undefined || route.query.to !== undefined) return "custom";
  return route.query.range ?? (state.mode === "live" ? "15m" : "all");
}

/** The earlier of two times, of which either may not be known. */
function earlier(one: string | null, other: string | null): string | null {
  if (one === null || other === null) return one ?? other;
  return BigInt(one) < BigInt(other) ? one : other;
}

/** The earliest row of a table, in memory or on disk. */
export function firstOf(table: TableInfo): string | null {
  return earlier(table.first, table.stored_first ?? null);
}

/** The earliest row there is. */
export function firstOfAll(state: State): string | null {
  const traffic = state.tables.find((table) => table.name === "traffic")?.first ?? null;
  return earlier(traffic, state.history?.first ?? null);
}

function nowOf(state: State): string | null {
  return state.now ?? state.history?.last ?? null;
}

/** Ranges that are shorter than what there is; while packets arrive, all of them. */
export function rangesOf(state: State, chosen: string): Range[] {
  const [first, now] = [firstOfAll(state), nowOf(state)];
  const span = first === null || now === null ? 0n : BigInt(now) - BigInt(first);
  const isGrowing = state.mode === "live" && !state.is_over;
  const isOffered = ({ name, seconds }: Range): boolean => {
    if (seconds === null || name === chosen) return true;
    if (state.history === null && seconds > MEMORY_MAX_S) return false;
    return isGrowing || BigInt(seconds) * SECOND_NS < span;
  };
  return RANGES.filter(isOffered);
}

export function boundsOf(route: Route, state: State): Bounds {
  const { from, to } = route.query;
  if (from !== undefined || to !== undefined) return { from, to };
  const name = rangeName(route, state);
  const seconds = RANGES.find((range) => range.name === name)?.seconds ?? null;
  const now = nowOf(state);
  // With a beginning it is asked of stored rows as well.
  if (seconds === null) return state.history === null ? {} : { from: state.history.first };
  if (now === null) return {};
  return { from: String(BigInt(now) - BigInt(seconds) * SECOND_NS) };
}

/**
 * So many ticks of the page pass from one question to the next: what is read from files is asked
 * less often, and changes less.
 */
export function ticksPerAnswer(bounds: Bounds, state: State): number {
  const { from, to } = bounds;
  const now = nowOf(state);
  if (state.history === null || from === undefined || now === null || !/^\d+$/.test(from)) return 1;
  const isInMemory = state.tables.every(
    (table) => table.first === null || BigInt(table.first) <= BigInt(from),
  );
  const seconds =
    (BigInt(to !== undefined && /^\d+$/.test(to) ? to : now) - BigInt(from)) / SECOND_NS;
  if (isInMemory || seconds <= 900n) return 1;
  return seconds <= 3600n ? 5 : 30;
}

/** Bounds of a chart: a run that began within the range is not drawn as a long nothing. */
export function chartBounds(table: TableInfo, bounds: Bounds): Bounds {
  const { from, to } = bounds;
  const first = firstOf(table);
  if (from === undefined || first === null || !/^\d+$/.test(from)) return bounds;
  return BigInt(from) < BigInt(first) ? { from: first, to } : bounds;
}

const STEPS_MS = [
  100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000,
  3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000,
];
/** Enough for a curve, few enough to be sent once a second. */
const POINTS_MAX = 180;

/** The shortest step that shows the range in few points and holds whole periods of the table. */
export function stepMs(table: TableInfo, bounds: Bounds, periodMs: number): number {
  const first = bounds.from ?? firstOf(table);
  const last = bounds.to ?? table.last;
  const spanMs = first !== null && last !== null ? Number(BigInt(last) - BigInt(first)) / 1e6 : 0;
  const fits = (step: number): boolean => step % periodMs === 0 && step * POINTS_MAX >= spanMs;
  return STEPS_MS.find(fits) ?? STEPS_MS.at(-1)!;
}

export function stepText(milliseconds: number): string {
  return milliseconds % 1000 === 0 ? `${milliseconds / 1000}s` : `${milliseconds}ms`;
}
