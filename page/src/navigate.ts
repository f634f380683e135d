import { useApp } from "./context.ts";
import { boundsOf } from "./range.ts";
import { carried, formatRoute } from "./route.ts";
import type { Bounds } from "./source/source.ts";

export interface Place {
  query: Record<string, string>;
  /** Bounds of the time range now; in live mode they move with event time. */
  bounds: Bounds;
  /** Changes with what is asked, not with time. */
  key: string;
  /** The same view with other parameters. */
  here(changes: Record<string, string | undefined>): string;
  go(changes: Record<string, string | undefined>): void;
  /** Another view over the same time range. */
  to(path: string[], query?: Record<string, string | undefined>): string;
}

export function usePlace(): Place {
  const { route, state } = useApp();
  const here = (changes: Record<string, string | undefined>): string =>
    formatRoute(route.path, { ...route.query, ...changes });
  return {
    query: route.query,
    bounds: boundsOf(route, state),
    key: JSON.stringify([route.path, route.query]),
    here,
    go: (changes) => {
      window.location.hash = here(changes);
    },
    to: (path, query = {}) => formatRoute(path, { ...carried(route.query), ...query }),
  };
}
