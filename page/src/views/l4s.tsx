import { useAnswer } from "../answer.ts";
import { useApp } from "../context.ts";
import { formatCount, formatDuration, formatShare } from "../format.ts";
import { usePlace } from "../navigate.ts";
import { Meter } from "../parts/bar.tsx";
import { Chart } from "../parts/chart.tsx";
import { flowQuery } from "../parts/flow-table.tsx";
import { Panel } from "../parts/panel.tsx";
import { hasSensors, withSensor } from "../parts/sensor.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { endText, Text } from "../parts/text.tsx";
import { chartBounds, stepMs, stepText } from "../range.ts";
import { numberOf, type Rec, recordsOf, sumOf, textOf } from "../source/records.ts";
import type { TableInfo } from "../source/source.ts";

const FLOWS_MAX = 100;
const SUMS = "packets,l4s_packets,decided,kept,rare,limited,silent,unknown,late,remarked";

/** Re-marked by the kernel where it did, else decided to be. */
function remarked(row: Rec): number {
  return numberOf(row, "sum_remarked") ?? sumOf(row, "sum_decided");
}

function shareOf(row: Rec): number | null {
  const all = sumOf(row, "sum_l4s_packets");
  return all > 0 ? remarked(row) / all : null;
}

function counts(name: string, label: string, about: string): TableColumn<Rec> {
  return {
    name,
    label,
    about,
    isNumber: true,
    render: (row) => formatCount(numberOf(row, `sum_${name}`)),
  };
}

const COLUMNS: TableColumn<Rec>[] = [
  {
    name: "flow",
    label: "Flow",
    render: (row) => (
      <Text
        value={`${endText(textOf(row, "src_ip"), numberOf(row, "src_port"))} → ${endText(
          textOf(row, "dst_ip"),
          numberOf(row, "dst_port"),
        )}`}
      />
    ),
  },
  {
    name: "share",
    label: "Re-marked",
    isNumber: true,
    about: "Share of L4S packets",
    render: (row) => <Meter share={shareOf(row)} text={formatShare(shareOf(row))} />,
  },
  counts("packets", "Packets", "With data, SYN or FIN"),
  counts("l4s_packets", "L4S packets", "ECT(1), or re-marked from it"),
  counts("decided", "Decided", "To be re-marked"),
  counts("kept", "Kept", "The L4S queue was predicted to be fast enough"),
  counts("rare", "Rare", "The classic queue was faster for too few packets"),
  counts("limited", "Limited", "The re-mark share was at its limit"),
  counts("silent", "Silent", "ACKs had stopped"),
  counts("unknown", "Unknown", "No ACK yet, or a path unlike training"),
  {
    name: "l4s",
    label: "L4S P99",
    isNumber: true,
    about: "Highest of the periods",
    render: (row) => formatDuration(numberOf(row, "max_l4s_p99_ns")),
  },
  {
    name: "classic",
    label: "Classic P99",
    isNumber: true,
    about: "Highest of the periods",
    render: (row) => formatDuration(numberOf(row, "max_classic_p99_ns")),
  },
];

export function L4s({ table }: { table: TableInfo }) {
  const { source, state } = useApp();
  const isOfSensors = hasSensors(state, table.name);
  const place = usePlace();
  const answer = useAnswer(`l4s ${place.key}`, async (signal) => {
    const { bounds } = place;
    const drawn = chartBounds(table, bounds);
    const one = await source.rows("l4s", { columns: "period_ns", limit: 1 }, signal);
    const periodMs = Number(one.rows[0]?.[0] ?? 1e9) / 1e6;
    const step = stepText(stepMs(table, drawn, periodMs));
    const ask = (value: string) =>
      source.series("l4s", { value, aggregate: "max", step, ...drawn }, signal);
    const [groups, l4s, classic] = await Promise.all([
      source.groups(
        "l4s",
        {
          by: `community_id,src_ip,src_port,dst_ip,dst_port${isOfSensors ? ",sensor" : ""}`,
          sum: SUMS,
          max: "l4s_p99_ns,classic_p99_ns",
          sort: "-sum_packets",
          limit: FLOWS_MAX,
          ...bounds,
        },
        signal,
      ),
      ask("l4s_p99_ns"),
      ask("classic_p99_ns"),
    ]);
    return { flows: recordsOf(groups), l4s, classic };
  });
  return (
    <Panel
      title="L4S queue choice"
      note="latency up to the ACK by queue, highest P99 of the flows in each step"
    >
      <Shown answer={answer} lines={8}>
        {({ flows, l4s, classic }) =>
          flows.length === 0 ? (
            <Empty title="No L4S decisions in this time range" />
          ) : (
            <>
              <Chart
                label="Latency by queue"
                times={l4s.times}
                format={formatDuration}
                isRangeSetter
                lines={[
                  { name: "L4S queue, P99", values: l4s.series[0]?.values ?? [], color: 0 },
                  { name: "Classic queue, P99", values: classic.series[0]?.values ?? [], color: 1 },
                ]}
              />
              <Table
                caption="L4S decisions per flow"
                columns={withSensor(COLUMNS, isOfSensors, "flow")}
                rows={flows}
                keyOf={(row) => `${row.community_id} ${row.sensor ?? ""}`}
                hrefOf={(row) =>
                  place.to(["flow", textOf(row, "community_id") ?? ""], flowQuery(row))
                }
              />
            </>
          )
        }
      </Shown>
    </Panel>
  );
}
