// What a view shows where it has no numbers: loading, nothing there, failed.

import type { ComponentChildren } from "preact";
import type { Answer } from "../answer.ts";
import { useApp } from "../context.ts";
import { visible } from "../visible.ts";

export function Skeleton({ lines = 5 }: { lines?: number }) {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, i) => (
        <div class="skeleton-line" key={i} />
      ))}
    </div>
  );
}

export function Failed({ error, retry }: { error: string; retry?: () => void }) {
  return (
    <div class="state state-error" role="alert">
      <p class="state-title">This could not be loaded</p>
      <p>{visible(error)}</p>
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state">
      <p class="state-title">{title}</p>
      {children}
    </div>
  );
}

const TABLES: Record<string, { section: string; shows: string; lines: string[] }> = {
  flows: { section: "flows", shows: "flow records with names", lines: ["read-names = true"] },
  classify: {
    section: "classify",
    shows: "the service of each flow",
    lines: ['model = "services"'],
  },
  hosts_verdicts: {
    section: "classify",
    shows: "the device of each host",
    lines: ['model = "devices"', 'by = "host"'],
  },
  cca: {
    section: "cca",
    shows: "bytes of heavy flows in the queue or in flight",
    lines: ['model = "cca"'],
  },
  latency: { section: "latency", shows: "RTT, jitter and retransmissions", lines: ['by = "flow"'] },
  l4s: { section: "l4s", shows: "predicted latencies of the L4S queues", lines: ['model = "l4s"'] },
  sensors: {
    section: "sensors",
    shows: "results of sensors",
    lines: ["# in place of [input]", "[nats]", 'servers = ["nats://127.0.0.1:4222"]'],
  },
  packetlog: { section: "packetlog", shows: "recorded packets", lines: ['output = "packetlog"'] },
  alerts: {
    section: "[alert]",
    shows: "alerts",
    lines: ['name = "large flow"', 'table = "flows"', 'when = "bytes > 100M"'],
  },
};

/** The table that a view needs is not part of this run: says what to add to wirelens.toml. */
export function NoTable({ name }: { name: string }) {
  const { source } = useApp();
  const table = (Object.hasOwn(TABLES, name) ? TABLES[name] : undefined) ?? {
    section: name,
    shows: name,
    lines: [],
  };
  const where = source.kind === "report" ? "This report" : "This run";
  return (
    <Empty title={`${where} does not include ${table.shows}`}>
      <p>
        Add these lines to <code>wirelens.toml</code>, then start{" "}
        <code>wirelens run -c wirelens.toml --page</code> again.
      </p>
      <pre tabIndex={0} aria-label="Lines for wirelens.toml">
        {[`[${table.section}]`, ...table.lines].join("\n")}
      </pre>
    </Empty>
  );
}

interface ShownProperties<T> {
  answer: Answer<T>;
  lines?: number;
  children: (data: T) => ComponentChildren;
}

/** The answer once it is there; numbers of an earlier question are dimmed until then. */
export function Shown<T>({ answer, lines, children }: ShownProperties<T>) {
  if (answer.error !== null && answer.data === null) {
    return <Failed error={answer.error} retry={answer.retry} />;
  }
  if (answer.data === null) return <Skeleton {...(lines === undefined ? {} : { lines })} />;
  return (
    <div class={`shown ${answer.isLoading ? "is-stale" : ""}`} aria-busy={answer.isLoading}>
      {answer.error !== null && <Failed error={answer.error} retry={answer.retry} />}
      {children(answer.data)}
    </div>
  );
}
