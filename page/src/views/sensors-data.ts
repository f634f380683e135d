// How sensors stand, from the rows of the table `sensors`.

import { numberOf, type Rec, sumOf, textOf } from "../source/records.ts";

export interface SensorState {
  name: string;
  isSilent: boolean;
  /** Seconds since its last message. */
  silentS: number | null;
  /** How often it restarted while it was followed, and when it did last. */
  restarts: number;
  restartedNs: string | null;
  eventNs: string | null;
  received: number | null;
  dropped: number | null;
  rows: number;
  /** Published, and not received. */
  missing: number;
  /** Not even published. */
  lost: number | null;
}

/** Rows of the present state and, by sensor and event, how often and when last. */
export function statesOf(now: Rec[], events: Rec[]): SensorState[] {
  const latest = new Map<string, Rec>();
  for (const event of events) latest.set(`${event.event} ${event.sensor}`, event);
  const lastOf = (event: string, sensor: string): string | null => {
    const found = latest.get(`${event} ${sensor}`);
    return found === undefined ? null : textOf(found, "max_time_ns");
  };
  const newest = new Map<string, Rec>();
  for (const row of now) {
    const name = textOf(row, "sensor") ?? "";
    const before = newest.get(name);
    if (before === undefined || !isAfter(textOf(before, "time_ns"), textOf(row, "time_ns"))) {
      newest.set(name, row);
    }
  }
  return [...newest]
    .sort(byName)
    .map(([name, row]) => ({
      name,
      isSilent: isAfter(lastOf("silent", name), lastOf("back", name)),
      silentS: numberOf(row, "silent_s"),
      restarts: sumOf(latest.get(`restarted ${name}`) ?? {}, "rows"),
      restartedNs: lastOf("restarted", name),
      eventNs: textOf(row, "event_time_ns"),
      received: numberOf(row, "packets_received"),
      dropped: numberOf(row, "packets_dropped"),
      rows: sumOf(row, "rows"),
      missing: sumOf(row, "rows_missing"),
      lost: numberOf(row, "rows_lost"),
    }));
}

function byName(one: [string, unknown], other: [string, unknown]): number {
  return one[0] < other[0] ? -1 : one[0] > other[0] ? 1 : 0;
}

function isAfter(one: string | null, other: string | null): boolean {
  return one !== null && (other === null || BigInt(one) > BigInt(other));
}

export interface SensorTotals {
  silent: number;
  received: number;
  dropped: number;
  missing: number;
  lost: number;
}

export function totalsOf(states: SensorState[]): SensorTotals {
  const totals: SensorTotals = { silent: 0, received: 0, dropped: 0, missing: 0, lost: 0 };
  for (const state of states) {
    totals.silent += state.isSilent ? 1 : 0;
    totals.received += state.received ?? 0;
    totals.dropped += state.dropped ?? 0;
    totals.missing += state.missing;
    totals.lost += state.lost ?? 0;
  }
  return totals;
}

/** Packets of a flow that the sensor with the fewest lacks, and their share. */
export function lostBetween(joined: Rec): { packets: number; share: number | null } {
  const most = sumOf(joined, "packets_max");
  const packets = most - sumOf(joined, "packets_min");
  return { packets, share: most > 0 ? packets / most : null };
}
