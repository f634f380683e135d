import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Zone } from "./format.ts";
import type { Route } from "./route.ts";
import type { Connection, Source, State, TableInfo } from "./source/source.ts";

export interface App {
  source: Source;
  state: State;
  /** Goes up when views should ask again: at most once a second, never while hidden. */
  tick: number;
  connection: Connection;
  route: Route;
  zone: Zone;
  isDark: boolean;
  /** Whether a clock alone would be ambiguous: tables hold more than a day. */
  hasDates: boolean;
}

export const AppContext = createContext<App | null>(null);

export function useApp(): App {
  const app = useContext(AppContext);
  if (app === null) throw new Error("a view was drawn outside of the page");
  return app;
}

export function tableOf(state: State, name: string): TableInfo | null {
  return state.tables.find((table) => table.name === name) ?? null;
}

const DAY_NS = 86_400_000_000_000n;

export function spansDays(state: State): boolean {
  const isLong = (first: string | null, last: string | null): boolean =>
    first !== null && last !== null && BigInt(last) - BigInt(first) > DAY_NS;
  return (
    state.tables.some(({ first, last }) => isLong(first, last)) ||
    (state.history !== null && isLong(state.history.first, state.now ?? state.history.last))
  );
}

export function hasColumn(table: TableInfo | null, name: string): boolean {
  return table?.columns.some((column) => column.name === name) ?? false;
}
