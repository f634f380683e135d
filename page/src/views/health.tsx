import { useAnswer } from "../answer.ts";
import { useApp } from "../context.ts";
import { formatBytes, formatCount, formatDuration, formatShare } from "../format.ts";
import { usePlace } from "../navigate.ts";
import { Meter } from "../parts/bar.tsx";
import { Events } from "../parts/events.tsx";
import { Figures, Panel } from "../parts/panel.tsx";
import { Ranking } from "../parts/ranking.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { Text } from "../parts/text.tsx";
import type { Check, Health } from "../source/source.ts";

const SIGNS: Record<Check["status"], string> = { ok: "✓", warning: "!", error: "✕" };

const CHECKS: TableColumn<Check>[] = [
  { name: "name", label: "Check", render: (row) => <Text value={row.name} /> },
  {
    name: "status",
    label: "Status",
    render: (row) => (
      <span class={`check check-${row.status}`}>
        <span aria-hidden="true">{SIGNS[row.status]}</span> {row.status}
      </span>
    ),
  },
  { name: "seen", label: "Seen", isProse: true, render: (row) => <Text value={row.seen} /> },
  { name: "wanted", label: "Wanted", isProse: true, render: (row) => <Text value={row.wanted} /> },
];

type TableHealth = Health["tables"][number];

const TABLES: TableColumn<TableHealth>[] = [
  { name: "name", label: "Table", render: (row) => <Text value={row.name} /> },
  { name: "rows", label: "Rows", isNumber: true, render: (row) => formatCount(row.rows) },
  {
    name: "evicted",
    label: "Evicted",
    isNumber: true,
    about: "Oldest rows removed to make room",
    render: (row) => formatCount(row.evicted),
  },
  {
    name: "dropped",
    label: "Dropped",
    isNumber: true,
    about: "Rows that never entered the table",
    render: (row) => formatCount(row.dropped),
  },
  { name: "bytes", label: "Memory", isNumber: true, render: (row) => formatBytes(row.bytes) },
];

type Lane = NonNullable<Health["lanes"]>[number];

const LANES: TableColumn<Lane>[] = [
  { name: "name", label: "Lane", render: (row) => <Text value={row.name} /> },
  { name: "packets", label: "Packets", isNumber: true, render: (row) => formatCount(row.packets) },
  {
    name: "busy",
    label: "Busy",
    isNumber: true,
    render: (row) => <Meter share={row.busy_share} text={formatShare(row.busy_share)} />,
  },
];

function Packets() {
  const { packets } = useApp().state;
  const parts = (["received", "dropped", "malformed"] as const).map((name) => ({
    name: name[0]!.toUpperCase() + name.slice(1),
    href: null,
    parts: [packets[name]],
    text: formatCount(packets[name]),
  }));
  return (
    <Panel title="Packets">
      <Ranking label="Packets by outcome" list={parts} />
    </Panel>
  );
}

function Loaded({ health }: { health: Health }) {
  const place = usePlace();
  const limit = health.memory_limit_bytes ?? null;
  const lanes = health.lanes ?? [];
  return (
    <>
      <Figures
        list={[
          {
            label: "Status",
            value: health.status,
            tone: health.status === "ok" ? "ok" : "warning",
          },
          { label: "Running for", value: formatDuration(health.uptime_s * 1e9) },
          {
            label: "Memory",
            value: formatBytes(health.memory_bytes),
            note: limit === null ? "no limit" : `of ${formatBytes(limit)}`,
          },
          { label: "CPU time", value: formatDuration(health.cpu_seconds * 1e9) },
        ]}
      />
      <Panel title="Checks">
        <Table caption="Checks" columns={CHECKS} rows={health.checks} keyOf={(row) => row.name} />
      </Panel>
      <div class="columns-2">
        <Panel title="Tables">
          <Table
            caption="Tables"
            columns={TABLES}
            rows={health.tables}
            keyOf={(row) => row.name}
            hrefOf={(row) => place.to(["table", row.name])}
          />
        </Panel>
        {lanes.length > 0 && (
          <Panel title="Threads" note="threads that process packets">
            <Table caption="Threads" columns={LANES} rows={lanes} keyOf={(row) => row.name} />
          </Panel>
        )}
      </div>
    </>
  );
}

export function HealthView() {
  const { source } = useApp();
  const answer = useAnswer("health", async (signal) => ({ health: await source.health(signal) }));
  return (
    <div class="view">
      <Shown answer={answer} lines={8}>
        {({ health }) =>
          health === null ? (
            <Empty title="A report contains no health data">
              <p>
                Checks, memory and tables are shown while <code>wirelens run --page</code> runs.
              </p>
            </Empty>
          ) : (
            <Loaded health={health} />
          )
        }
      </Shown>
      <div class="columns-2">
        <Packets />
        <Events />
      </div>
    </div>
  );
}
