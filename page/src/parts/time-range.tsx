import { useEffect, useRef, useState } from "preact/hooks";
import { useApp } from "../context.ts";
import { formatSecond, type Zone } from "../format.ts";
import { boundsOf, firstOfAll, rangeName, rangesOf } from "../range.ts";
import { formatRoute, withoutPages } from "../route.ts";
import { parseTime } from "../source/literal.ts";

function toNs(text: string, zone: Zone): string | null {
  if (zone === "utc") return parseTime(`${text}Z`)?.toString() ?? null;
  const milliseconds = new Date(text).getTime();
  return Number.isNaN(milliseconds) ? null : String(BigInt(milliseconds) * 1_000_000n);
}

function toInput(ns: string | null | undefined, zone: Zone): string {
  return ns ? formatSecond(ns, zone).replace(" ", "T") : "";
}

/** Bounds may be decimal or RFC 3339 in a link that was written by hand. */
function decimal(bound: string | undefined): string | null {
  return bound === undefined ? null : (parseTime(bound)?.toString() ?? null);
}

function Custom({ close }: { close(): void }) {
  const { state, route, zone } = useApp();
  const bounds = boundsOf(route, state);
  const form = useRef<HTMLFormElement>(null);
  const [error, setError] = useState<string | null>(null);
  const apply = (event: Event): void => {
    event.preventDefault();
    const data = new FormData(form.current!);
    const from = toNs(String(data.get("from")), zone);
    const to = toNs(String(data.get("to")), zone);
    if (from === null || to === null || BigInt(from) >= BigInt(to)) {
      setError("“From” must be before “to”.");
      return;
    }
    close();
    window.location.hash = formatRoute(route.path, {
      ...withoutPages(route.query),
      range: undefined,
      from,
      to,
    });
  };
  const name = zone === "utc" ? "UTC" : "local time";
  const first = decimal(bounds.from) ?? firstOfAll(state);
  const last = decimal(bounds.to) ?? state.now;
  return (
    <form ref={form} class="range-custom" onSubmit={apply}>
      <label>
        From ({name})
        <input type="datetime-local" name="from" step="1" required value={toInput(first, zone)} />
      </label>
      <label>
        To ({name})
        <input type="datetime-local" name="to" step="1" required value={toInput(last, zone)} />
      </label>
      {error && (
        <p class="field-error" role="alert">
          {error}
        </p>
      )}
      <button type="submit" class="is-main">
        Apply
      </button>
    </form>
  );
}

export function TimeRange() {
  const { state, route, zone } = useApp();
  const [isOpen, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const chosen = rangeName(route, state);
  useEffect(() => {
    if (!isOpen) return;
    const leave = (event: Event): void => {
      const isKey = event instanceof KeyboardEvent;
      if (isKey ? event.key === "Escape" : !root.current?.contains(event.target as Node)) {
        setOpen(false);
      }
    };
    document.addEventListener("keydown", leave);
    document.addEventListener("pointerdown", leave);
    return () => {
      document.removeEventListener("keydown", leave);
      document.removeEventListener("pointerdown", leave);
    };
  }, [isOpen]);
  const { from: _, to: __, range: ___, ...rest } = withoutPages(route.query);
  const bounds = boundsOf(route, state);
  const shown = (bound: string | undefined): string =>
    bound === undefined ? "…" : formatSecond(decimal(bound), zone);
  return (
    <div class="time-range" ref={root}>
      <nav class="choice" aria-label="Time range">
        {rangesOf(state, chosen).map((range) => (
          <a
            key={range.name}
            href={formatRoute(route.path, { ...rest, range: range.name })}
            aria-current={range.name === chosen ? "true" : undefined}
          >
            {range.label}
          </a>
        ))}
        <button
          type="button"
          aria-expanded={isOpen}
          class={chosen === "custom" ? "is-chosen" : undefined}
          onClick={() => setOpen(!isOpen)}
        >
          {chosen === "custom" ? `${shown(bounds.from)} – ${shown(bounds.to)}` : "Custom"}
        </button>
      </nav>
      {isOpen && <Custom close={() => setOpen(false)} />}
    </div>
  );
}
