import { useAnswer } from "../answer.ts";
import { hasColumn, tableOf, useApp } from "../context.ts";
import { formatBytes, formatCount, formatShare } from "../format.ts";
import { type Place, usePlace } from "../navigate.ts";
import { Bar } from "../parts/bar.tsx";
import { Choice, Panel } from "../parts/panel.tsx";
import { SensorsNote } from "../parts/sensor.tsx";
import { Empty, NoTable, Shown } from "../parts/states.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { Text } from "../parts/text.tsx";
import { type Rec, recordsOf, sumOf, textOf } from "../source/records.ts";
import type { TableInfo } from "../source/source.ts";
import { quote } from "../source/tokens.ts";

/** Groups that are shown; the rest is in the total that shares refer to. */
const GROUPS_MAX = 100;

interface Key {
  name: string;
  label: string;
  /** Columns of `flows`; none for hosts, which are both ends. */
  by: string[];
}

const KEYS: Key[] = [
  { name: "host", label: "Host", by: [] },
  { name: "source", label: "Source", by: ["src_ip"] },
  { name: "destination", label: "Destination", by: ["dst_ip"] },
  { name: "pair", label: "Pair", by: ["src_ip", "dst_ip"] },
  { name: "port", label: "Port", by: ["protocol", "dst_port"] },
  { name: "protocol", label: "Protocol", by: ["protocol"] },
  { name: "service", label: "Service", by: ["app_protocol"] },
  { name: "server", label: "Server name", by: ["server_name"] },
];

/** One shape for both questions: what is sent and received of what is named. */
interface Talker {
  name: string | null;
  href: string | null;
  sent: number;
  received: number;
  packets: number;
  flows: number;
}

function keysOf(flows: TableInfo | null): Key[] {
  return KEYS.filter((key) => key.by.every((column) => hasColumn(flows, column)));
}

function hostTalker(host: Rec, place: Place): Talker {
  const name = textOf(host, "host");
  return {
    name,
    href: place.to(["host", name ?? ""]),
    sent: sumOf(host, "bytes_sent"),
    received: sumOf(host, "bytes_received"),
    packets: sumOf(host, "packets_sent", "packets_received"),
    flows: sumOf(host, "flows"),
  };
}

function groupTalker(group: Rec, key: Key, place: Place): Talker {
  const parts = key.by.map((column) => textOf(group, column));
  const isWhole = parts.every((part) => part !== null);
  const where = key.by
    .map((column, i) => {
      const isNumber = typeof group[column] === "number";
      return `${column} == ${isNumber ? parts[i] : quote(parts[i] ?? "")}`;
    })
    .join(" and ");
  return {
    name: isWhole ? parts.join(key.name === "pair" ? " → " : " ") : null,
    href: isWhole ? place.to(["flows"], { where }) : null,
    sent: sumOf(group, "sum_src_bytes"),
    received: sumOf(group, "sum_dst_bytes"),
    packets: sumOf(group, "sum_packets"),
    flows: sumOf(group, "rows"),
  };
}

function columnsOf(key: Key, max: number, total: number): TableColumn<Talker>[] {
  const [out, back] = key.name === "host" ? ["Sent", "Received"] : ["From source", "To source"];
  return [
    {
      name: "name",
      label: key.label,
      isWide: true,
      render: (row) => <Text value={row.name} none="not recognised" />,
    },
    {
      name: "bytes",
      label: "Bytes",
      isNumber: true,
      render: (row) => formatBytes(row.sent + row.received),
    },
    {
      name: "bar",
      label: `${out} and ${back!.toLowerCase()}`,
      render: (row) => <Bar parts={[row.sent, row.received]} max={max} />,
    },
    {
      name: "share",
      label: "Share",
      isNumber: true,
      about: "Of the bytes of the rows shown",
      render: (row) => formatShare(total > 0 ? (row.sent + row.received) / total : null),
    },
    { name: "sent", label: out!, isNumber: true, render: (row) => formatBytes(row.sent) },
    { name: "received", label: back!, isNumber: true, render: (row) => formatBytes(row.received) },
    {
      name: "packets",
      label: "Packets",
      isNumber: true,
      render: (row) => formatCount(row.packets),
    },
    { name: "flows", label: "Flows", isNumber: true, render: (row) => formatCount(row.flows) },
  ];
}

export function Talkers() {
  const { source, state } = useApp();
  const place = usePlace();
  const flows = tableOf(state, "flows");
  const keys = keysOf(flows);
  const key = keys.find((each) => each.name === place.query.by) ?? KEYS[0]!;
  const answer = useAnswer(`talkers ${key.name} ${place.key}`, async (signal) => {
    if (flows === null) return { list: [], matched: 0, key };
    if (key.by.length === 0) {
      const query = { sort: "-bytes", limit: GROUPS_MAX, ...place.bounds };
      const found = await source.hosts(query, signal);
      const list = recordsOf(found).map((host) => hostTalker(host, place));
      return { list, matched: found.matched, key };
    }
    const found = await source.groups(
      "flows",
      {
        by: key.by.join(","),
        sum: "src_bytes,dst_bytes,bytes,packets",
        sort: "-sum_bytes",
        limit: GROUPS_MAX,
        ...place.bounds,
      },
      signal,
    );
    const list = recordsOf(found).map((group) => groupTalker(group, key, place));
    return { list, matched: found.matched, key };
  });
  if (flows === null) return <NoTable name="flows" />;
  return (
    <div class="view">
      <SensorsNote />
      <Choice
        label="Group by"
        chosen={key.name}
        options={keys.map(({ name, label }) => ({ name, label, href: place.here({ by: name }) }))}
      />
      <Panel
        title={`Talkers by ${key.label.toLowerCase()}`}
        note={
          answer.data && answer.data.matched > GROUPS_MAX
            ? `the largest ${GROUPS_MAX} of ${formatCount(answer.data.matched)}`
            : "largest first"
        }
      >
        <Shown answer={answer} lines={12}>
          {({ list, key: shown }) => {
            const total = list.reduce((sum, row) => sum + row.sent + row.received, 0);
            const max = list.reduce((most, row) => Math.max(most, row.sent + row.received), 0);
            return list.length === 0 ? (
              <Empty title="No flows in this time range" />
            ) : (
              <Table
                caption={`Bytes by ${shown.label.toLowerCase()}`}
                rows={list}
                columns={columnsOf(shown, max, total)}
                keyOf={(row) => String(row.name)}
                hrefOf={(row) => row.href}
              />
            );
          }}
        </Shown>
      </Panel>
    </div>
  );
}
