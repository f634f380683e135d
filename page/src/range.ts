// Time ranges of the address: `range=15m`, or `from` and `to` in nanoseconds.

import type { Route } from "./route.ts";
import type { Bounds, State, TableInfo } from "./source/source.ts";

export const RANGES = [
  { name: "5m", label: "5 min", seconds: 300 },
  { name: "15m", label: "15 min", seconds: 900 },
  { name: "1h", label: "1 h", seconds: 3600 },
  { name: "all", label: "All", seconds: null },
] as const;

export function rangeName(route: Route, state: State): string {
  if (route.query.from !== undefined || route.query.to !== undefined) return "custom";
  return route.query.range ?? (state.mode === "live" ? "15m" : "all");
}

/** Ranges that are shorter than what there is; while packets arrive, all of them. */
export function rangesOf(state: State, chosen: string): (typeof RANGES)[number][] {
  const first = state.tables.find((table) => table.name === "traffic")?.first ?? null;
  const span = first === null || state.now === null ? 0n : BigInt(state.now) - BigInt(first);
  const isGrowing = state.mode === "live" && !state.is_over;
  return RANGES.filter(
    ({ name, seconds }) =>
      seconds === null || isGrowing || name === chosen || BigInt(seconds) * 1_000_000_000n < span,
  );
}

export function boundsOf(route: Route, state: State): Bounds {
  const { from, to } = route.query;
  if (from !== undefined || to !== undefined) return { from, to };
  const name = rangeName(route, state);
  const seconds = RANGES.find((range) => range.name === name)?.seconds ?? null;
  if (seconds === null || state.now === null) return {};
  return { from: String(BigInt(state.now) - BigInt(seconds) * 1_000_000_000n) };
}

/** Bounds of a chart: a run that began within the range is not drawn as a long nothing. */
export function chartBounds(table: TableInfo, bounds: Bounds): Bounds {
  const { from, to } = bounds;
  if (from === undefined || table.first === null || !/^\d+$/.test(from)) return bounds;
  return BigInt(from) < BigInt(table.first) ? { from: table.first, to } : bounds;
}

const STEPS_MS = [
  100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000,
  3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000,
];
/** Enough for a curve, few enough to be sent once a second. */
const POINTS_MAX = 180;

/** The shortest step that shows the range in few points and holds whole periods of the table. */
export function stepMs(table: TableInfo, bounds: Bounds, periodMs: number): number {
  const first = bounds.from ?? table.first;
  const last = bounds.to ?? table.last;
  const spanMs = first !== null && last !== null ? Number(BigInt(last) - BigInt(first)) / 1e6 : 0;
  const fits = (step: number): boolean => step % periodMs === 0 && step * POINTS_MAX >= spanMs;
  return STEPS_MS.find(fits) ?? STEPS_MS.at(-1)!;
}

export function stepText(milliseconds: number): string {
  return milliseconds % 1000 === 0 ? `${milliseconds / 1000}s` : `${milliseconds}ms`;
}
