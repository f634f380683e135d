// Rows that a view is about and that its figures lack: evicted from memory, or too many for a
// report. A total of the others would pass for that of all.

import { tableOf } from "./context.ts";
import type { Bounds, State } from "./source/source.ts";

export interface Missing {
  table: string;
  held: number;
  all: number;
  /** Time of the earliest row held; a report leaves out rows of any time. */
  since: string | null;
}

function isHeldFrom(first: string | null, from: string | undefined): boolean {
  if (first === null || from === undefined || !/^\d+$/.test(from)) return false;
  return BigInt(first) <= BigInt(from);
}

/** Of these tables, those that lack rows of the time range. */
export function missingOf(tables: readonly string[], state: State, bounds: Bounds): Missing[] {
  const isReport = state.mode === "report";
  // With a beginning, stored rows are asked as well.
  if (!isReport && state.history !== null && bounds.from !== undefined) return [];
  return tables.flatMap((name) => {
    const table = tableOf(state, name);
    if (table === null || table.evicted === 0) return [];
    if (!isReport && isHeldFrom(table.first, bounds.from)) return [];
    const { rows: held, evicted } = table;
    return [{ table: name, held, all: held + evicted, since: isReport ? null : table.first }];
  });
}
