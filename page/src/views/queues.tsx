import { useAnswer } from "../answer.ts";
import { tableOf, useApp } from "../context.ts";
import {
  formatBytes,
  formatCount,
  formatCountOf,
  formatDuration,
  formatFraction,
  formatShare,
} from "../format.ts";
import { usePlace } from "../navigate.ts";
import { Meter } from "../parts/bar.tsx";
import type { Line } from "../parts/chart-options.ts";
import { Chart } from "../parts/chart.tsx";
import { Panel } from "../parts/panel.tsx";
import { Ranking } from "../parts/ranking.tsx";
import { SensorsNote, withSensor } from "../parts/sensor.tsx";
import { Empty, NoTable, Shown } from "../parts/states.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { Text } from "../parts/text.tsx";
import type { TableInfo } from "../source/source.ts";
import { visible } from "../visible.ts";
import { askQueue, type QueueAnswer, type QueueFlow, type Taps, tapsOf } from "./queue-data.ts";

const UNNAMED: Record<string, string> = {
  short: "seen too briefly",
  unsure: "no control is probable enough",
  flows: "number of flows unlike training",
  rate: "rate unlike training",
  queue: "queue unlike training",
  rtt: "round trip unlike training",
};

function ControlName({ flow }: { flow: QueueFlow }) {
  const likeliest = flow.likeliest && <div class="note">{visible(flow.likeliest)}</div>;
  if (flow.control !== null) {
    return (
      <>
        <Text value={flow.control} />
        {likeliest}
      </>
    );
  }
  const reason = flow.unnamed === null ? null : (UNNAMED[flow.unnamed] ?? flow.unnamed);
  return (
    <>
      <span class="none">unknown</span>
      {reason && <span class="note"> {visible(reason)}</span>}
      {likeliest}
    </>
  );
}

const SENSOR: TableColumn<QueueFlow> = {
  name: "sensor",
  label: "Sensor",
  render: (row) => <Text value={row.sensor} />,
};

function columnsOf(taps: Taps): TableColumn<QueueFlow>[] {
  const level = taps.hasQueue ? "Mean in queue" : "Mean in flight";
  const columns: TableColumn<QueueFlow>[] = [
    { name: "name", label: "Flow", isWide: true, render: (row) => <Text value={row.name} /> },
    { name: "control", label: "Congestion control", render: (row) => <ControlName flow={row} /> },
    {
      name: "confidence",
      label: "Confidence",
      isNumber: true,
      render: (row) => formatFraction(row.control === null ? null : row.confidence),
    },
    {
      name: "share",
      label: "Share of link",
      isNumber: true,
      about: `Of the bytes of the flows in this table (${taps.sent})`,
      render: (row) => <Meter share={row.share} text={formatShare(row.share)} />,
    },
    { name: "bytes", label: "Bytes", isNumber: true, render: (row) => formatBytes(row.bytes) },
    { name: "level", label: level, isNumber: true, render: (row) => formatBytes(row.level) },
    { name: "most", label: "Highest", isNumber: true, render: (row) => formatBytes(row.levelMax) },
    {
      name: "drops",
      label: "Drops",
      isNumber: true,
      about: "Packets lost, an estimate",
      render: (row) => formatCount(row.drops === null ? null : Math.round(row.drops)),
    },
  ];
  if (!taps.hasQueue) {
    columns.push(
      {
        name: "rtt",
        label: "Mean RTT",
        isNumber: true,
        render: (row) => formatDuration(row.rttS === null ? null : row.rttS * 1e9),
      },
      {
        name: "inflation",
        label: "RTT inflation",
        isNumber: true,
        render: (row) =>
          formatDuration(row.rttInflationS === null ? null : row.rttInflationS * 1e9),
      },
    );
  }
  return columns;
}

/** Curves are named by their flow and its control, not by the Community ID. */
function linesOf(answer: QueueAnswer): Line[] {
  // Both directions have one Community ID; the one with more bytes, which comes first, names it.
  const flows = new Map(answer.flows.toReversed().map((flow) => [flow.id, flow]));
  return answer.series.series.map(({ name, values }, index) => {
    const flow = flows.get(name);
    if (flow === undefined) return { name, values, color: "grey" };
    const control = flow.control === null ? "" : ` (${flow.control})`;
    return { name: `${flow.name}${control}`, values, color: index };
  });
}

function Filled({ answer, taps }: { answer: QueueAnswer; taps: Taps }) {
  const place = usePlace();
  if (answer.flows.length === 0) return <Empty title="No heavy flows in this time range" />;
  const what = taps.hasQueue ? "Bytes in the queue (CBIQ)" : "Bytes in flight";
  return (
    <>
      <div class="columns-wide">
        <Panel
          title={what}
          note={
            taps.hasQueue ? "per flow, mean of each step" : "per flow, sent and not acknowledged"
          }
        >
          <Chart
            label={what}
            times={answer.series.times}
            lines={linesOf(answer)}
            kind="stacked"
            height={260}
            format={formatBytes}
            isRangeSetter
          />
        </Panel>
        <Panel title="Congestion controls" note="share of the link">
          <Ranking
            label="Share of the link by congestion control"
            list={answer.controls.map((control) => ({
              name: control.name,
              href: null,
              parts: [control.share],
              text: formatShare(control.share),
              note: `${formatCountOf(control.flows, "flow")}, ${formatBytes(control.bytes)}`,
            }))}
          />
        </Panel>
      </div>
      <Panel
        title="Flows"
        note={
          taps.hasQueue ? "by bytes that left the queue" : "by bytes sent, retransmissions included"
        }
      >
        <Table
          caption="Heavy flows"
          columns={withSensor(
            columnsOf(taps),
            answer.flows.some((flow) => flow.sensor !== null),
            "name",
            SENSOR,
          )}
          rows={answer.flows}
          keyOf={(row) => `${row.name} ${row.sensor ?? ""}`}
          hrefOf={(row) => place.to(["flow", row.id], { seen_by: row.sensor ?? undefined })}
        />
      </Panel>
    </>
  );
}

function Loaded({ table }: { table: TableInfo }) {
  const { source } = useApp();
  const place = usePlace();
  const taps = tapsOf(table);
  const answer = useAnswer(`queue ${place.key}`, (signal) =>
    askQueue(source, table, place, signal),
  );
  return (
    <>
      {!taps.hasQueue && (
        <p class="hint">
          One tap: bytes sent and in flight are measured here. With a second tap downstream of the
          queue (<code>egress</code> in <code>[cca]</code>), bytes in the queue are measured
          instead.
        </p>
      )}
      <SensorsNote table="cca" />
      <Shown answer={answer} lines={12}>
        {(found) => <Filled answer={found} taps={taps} />}
      </Shown>
    </>
  );
}

export function Queues() {
  const { state } = useApp();
  const table = tableOf(state, "cca");
  return (
    <div class="view">{table === null ? <NoTable name="cca" /> : <Loaded table={table} />}</div>
  );
}
