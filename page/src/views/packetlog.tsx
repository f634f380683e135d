import { useAnswer } from "../answer.ts";
import { useApp } from "../context.ts";
import { formatBytes, formatCount, formatShare } from "../format.ts";
import { type Figure, Figures, Panel } from "../parts/panel.tsx";
import { Empty, NoTable, Shown } from "../parts/states.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { Meter } from "../parts/bar.tsx";
import { parseTime } from "../source/literal.ts";
import type { LogClass, PacketLog } from "../source/source.ts";
import { visible } from "../visible.ts";
import { LogSearchPanel } from "./packetlog-search.tsx";

const CLASSES: TableColumn<LogClass>[] = [
  { name: "class", label: "Class", render: (row) => <Text value={row.class} /> },
  {
    name: "seen",
    label: "Packets seen",
    isNumber: true,
    render: (row) => formatCount(row.seen_packets),
  },
  {
    name: "bytes",
    label: "Bytes seen",
    isNumber: true,
    render: (row) => formatBytes(row.seen_bytes),
  },
  {
    name: "kept",
    label: "Packets stored",
    isNumber: true,
    render: (row) => formatCount(row.kept_packets),
  },
  {
    name: "kept_bytes",
    label: "Bytes stored",
    isNumber: true,
    render: (row) => formatBytes(row.kept_bytes),
  },
  {
    name: "share",
    label: "Kept",
    isNumber: true,
    about: "Share of the bytes",
    render: (row) => {
      const share = row.seen_bytes > 0 ? row.kept_bytes / row.seen_bytes : null;
      return <Meter share={share} text={formatShare(share)} />;
    },
  },
  {
    name: "stored",
    label: "In the log",
    isNumber: true,
    render: (row) => formatCount(row.stored_packets),
  },
  { name: "lost", label: "Lost", isNumber: true, render: (row) => formatCount(row.lost_packets) },
];

function figuresOf(log: PacketLog): Figure[] {
  const { bytes, packets } = log;
  const saved = bytes.seen > 0 ? 1 - bytes.kept / bytes.seen : null;
  // Such as `none: the recorder has ended`.
  const [mode, why] = log.mode.split(": ", 2);
  return [
    { label: "Mode", value: <Text value={mode} />, ...(why === undefined ? {} : { note: why }) },
    {
      label: "Volume saved",
      value: formatShare(saved),
      note: `kept ${formatBytes(bytes.kept)} of ${formatBytes(bytes.seen)}`,
    },
    {
      label: "Packets stored",
      value: formatCount(packets.kept),
      note: `of ${formatCount(packets.seen)}`,
    },
    { label: "Waiting", value: formatCount(packets.waiting) },
    { label: "Skipped by mode", value: formatCount(packets.passed_over) },
    {
      label: "Lost",
      value: formatCount(packets.lost),
      ...(packets.lost > 0 ? { tone: "error" as const } : {}),
    },
  ];
}

function EventList({ events }: { events: PacketLog["events"] }) {
  return (
    <ul class="events" aria-label="Events of the packet log">
      {[...events].reverse().map((event, index) => (
        <li key={index}>
          <Time ns={parseTime(event.time)?.toString() ?? null} hasDate />
          <span class="event-text">
            <Text value={event.text} />
          </span>
        </li>
      ))}
    </ul>
  );
}

function Loaded({ log }: { log: PacketLog }) {
  const { source } = useApp();
  return (
    <>
      <Figures list={figuresOf(log)} />
      <div class="columns-wide">
        <Panel
          title="Classes"
          note={
            <>
              in <code>{visible(log.folder)}</code>
            </>
          }
        >
          {log.classes.length === 0 ? (
            <Empty title="No packets so far" />
          ) : (
            <Table
              caption="Classes"
              columns={CLASSES}
              rows={log.classes}
              keyOf={(row) => row.class}
            />
          )}
        </Panel>
        <Panel title="Events of the log">
          {log.events.length === 0 ? (
            <Empty title="The mode has not changed" />
          ) : (
            <EventList events={log.events} />
          )}
        </Panel>
      </div>
      {source.kind === "api" ? (
        <LogSearchPanel classes={log.classes.map((each) => each.class)} />
      ) : (
        <p class="hint">
          A report holds no packets. Search the log with{" "}
          <code>wirelens packetlog query --log {visible(log.folder)}</code>.
        </p>
      )}
    </>
  );
}

export function PacketLogView() {
  const { source } = useApp();
  const answer = useAnswer("packet log", async (signal) => ({
    log: await source.packetLog(signal),
  }));
  return (
    <div class="view">
      <Shown answer={answer} lines={8}>
        {({ log }) => (log === null ? <NoTable name="packetlog" /> : <Loaded log={log} />)}
      </Shown>
    </div>
  );
}
