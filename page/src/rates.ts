// Rates over time from sums of periods.

import type { Series, State } from "./source/source.ts";

/** Sums per step as amounts per second, times a factor such as 8 bits. */
export function perSecond(series: Series, factor: number): (number | null)[] {
  const seconds = series.step_ns / 1e9;
  const values = series.series[0]?.values ?? [];
  return values.map((value) => (value === null ? null : (value * factor) / seconds));
}

/** The step that is still filling would look like a fall: it is left out while packets arrive. */
export function completeCount(series: Series, state: State): number {
  const last = series.times.at(-1);
  if (last === undefined || state.is_over || state.mode !== "live" || state.now === null) {
    return series.times.length;
  }
  const isFilling = BigInt(last) + BigInt(series.step_ns) > BigInt(state.now);
  return isFilling ? series.times.length - 1 : series.times.length;
}
