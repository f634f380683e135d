// The state of the run, as often as views should draw it.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Connection, Source, State } from "./source/source.ts";

/** At most one update of the views in this time. */
const UPDATE_MS = 1000;
const RETRY_MS = 3000;

export interface Live {
  /** Whether the reader stopped updates, to read what is there. */
  isPaused: boolean;
  setPaused(isPaused: boolean): void;
  state: State | null;
  tick: number;
  connection: Connection;
  error: string | null;
}

export function useLive(source: Source): Live {
  const [live, setLive] = useState<Omit<Live, "isPaused" | "setPaused">>({
    state: null,
    tick: 0,
    connection: "connecting",
    error: null,
  });
  const pending = useRef<State | null>(null);
  const shownAt = useRef(0);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const [isPaused, setPaused] = useState(false);
  const paused = useRef(false);
  const resume = useRef(() => {});

  useEffect(() => {
    const show = (): void => {
      clearTimeout(timer.current);
      timer.current = undefined;
      const state = pending.current;
      if (state === null || document.hidden || paused.current) return;
      const wait = UPDATE_MS - (performance.now() - shownAt.current);
      if (shownAt.current !== 0 && wait > 0) {
        timer.current = setTimeout(show, wait);
        return;
      }
      pending.current = null;
      shownAt.current = performance.now();
      setLive((before) => ({ ...before, state, tick: before.tick + 1, error: null }));
    };
    const receive = (state: State): void => {
      pending.current = state;
      if (timer.current === undefined) show();
    };
    resume.current = show;
    let retry: ReturnType<typeof setTimeout> | undefined;
    const load = (): void => {
      source.state().then(receive, (error: unknown) => {
        setLive((before) => ({
          ...before,
          error: String(error instanceof Error ? error.message : error),
        }));
        retry = setTimeout(load, RETRY_MS);
      });
    };
    load();
    const stop = source.listen({
      onState: receive,
      onConnection: (connection) => {
        setLive((before) => ({ ...before, connection }));
      },
    });
    document.addEventListener("visibilitychange", show);
    return () => {
      stop();
      clearTimeout(retry);
      clearTimeout(timer.current);
      document.removeEventListener("visibilitychange", show);
    };
  }, [source]);
  const pause = (next: boolean): void => {
    paused.current = next;
    setPaused(next);
    if (!next) resume.current();
  };
  return { ...live, isPaused, setPaused: pause };
}
