// Asking a source from a view: keeps the last answer while a new one is on its way.

import { useEffect, useRef, useState } from "preact/hooks";
import { useApp } from "./context.ts";
import { boundsOf, ticksPerAnswer } from "./range.ts";

export interface Answer<T> {
  data: T | null;
  error: string | null;
  isLoading: boolean;
  retry(): void;
}

interface Held<T> {
  key: string | null;
  data: T | null;
  error: string | null;
}

/**
 * Asks when `key` changes and at each tick of the page. An answer to another key is discarded; at
 * a tick, of long ranges at every few, nothing is asked while the last question is open, so a slow server is not piled upon.
 * Without a key nothing is asked, such as of a table that the run does not have.
 */
export function useAnswer<T>(
  key: string | null,
  ask: (signal: AbortSignal) => Promise<T>,
): Answer<T> {
  const { tick, route, state } = useApp();
  return useQuestion(key, Math.floor(tick / ticksPerAnswer(boundsOf(route, state), state)), ask);
}

/** For what is costly and does not change, such as a search of the packet log. */
export function useAnswerOnce<T>(
  key: string | null,
  ask: (signal: AbortSignal) => Promise<T>,
): Answer<T> {
  return useQuestion(key, 0, ask);
}

function useQuestion<T>(
  asked: string | null,
  tick: number,
  ask: (signal: AbortSignal) => Promise<T>,
): Answer<T> {
  const { sensor } = useApp().route.query;
  // Another sensor is another question, also of what is asked without a place.
  const key = asked === null || sensor === undefined ? asked : `${sensor} ${asked}`;
  const [held, setHeld] = useState<Held<T>>({ key: "", data: null, error: null });
  const [attempt, setAttempt] = useState(0);
  const open = useRef<{ key: string | null; controller: AbortController } | null>(null);

  useEffect(() => {
    if (open.current !== null) {
      if (open.current.key === key) return;
      open.current.controller.abort();
    }
    if (key === null) return;
    const controller = new AbortController();
    const question = { key, controller };
    open.current = question;
    const settle = (data: T | null, error: string | null): void => {
      if (open.current !== question) return;
      open.current = null;
      setHeld((before) => ({
        key,
        error,
        data: data ?? (before.key === key ? before.data : null),
      }));
    };
    ask(controller.signal).then(
      (data) => settle(data, null),
      (error: unknown) => settle(null, error instanceof Error ? error.message : String(error)),
    );
  }, [key, tick, attempt]);

  useEffect(() => () => open.current?.controller.abort(), []);

  const isCurrent = held.key === key;
  return {
    data: held.data,
    error: isCurrent ? held.error : null,
    isLoading: !isCurrent,
    retry: () => setAttempt((count) => count + 1),
  };
}
