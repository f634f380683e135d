// Charts of the table `traffic`, which every run has.

import { useAnswer } from "../answer.ts";
import { tableOf, useApp } from "../context.ts";
import { formatBitRate, formatCountOf, formatPacketRate } from "../format.ts";
import { usePlace } from "../navigate.ts";
import { chartBounds, stepMs, stepText } from "../range.ts";
import { completeCount, perSecond } from "../rates.ts";
import type { Aggregate, Series } from "../source/source.ts";
import type { Line } from "./chart-options.ts";
import { Chart } from "./chart.tsx";
import { Panel } from "./panel.tsx";
import { Empty, NoTable, Shown } from "./states.tsx";

interface Wanted {
  column: string;
  aggregate: Aggregate;
  name: string;
  color: number | "grey";
}

/** `traffic` has a row for each second. */
const PERIOD_MS = 1000;

function useTraffic(list: Wanted[]) {
  const { source, state } = useApp();
  const place = usePlace();
  const table = tableOf(state, "traffic");
  const key = `traffic ${place.key} ${JSON.stringify(list)}`;
  return useAnswer<Series[]>(key, (signal) => {
    if (table === null) return Promise.resolve([]);
    const bounds = chartBounds(table, place.bounds);
    const step = stepText(stepMs(table, bounds, PERIOD_MS));
    return Promise.all(
      list.map(({ column, aggregate }) =>
        source.series("traffic", { value: column, aggregate, step, ...bounds }, signal),
      ),
    );
  });
}

interface Shape {
  title: string;
  note?: string;
  wanted: Wanted[];
  kind?: "lines" | "stacked";
  valuesOf(series: Series): (number | null)[];
  format(value: number | null): string;
}

function TrafficPanel({ title, note, wanted, kind, valuesOf, format }: Shape) {
  const { state } = useApp();
  const answer = useTraffic(wanted);
  return (
    <Panel title={title} {...(note ? { note } : {})}>
      <Shown answer={answer} lines={6}>
        {(list) => {
          const first = list[0];
          if (first === undefined) return <NoTable name="traffic" />;
          if (first.times.length === 0) return <Empty title="No packets in this time range" />;
          const count = completeCount(first, state);
          // A line that stays at zero would only hide the axis: key figures show it as 0.
          const lines: Line[] = list
            .map((series, i) => ({
              name: wanted[i]!.name,
              color: wanted[i]!.color,
              values: valuesOf(series).slice(0, count),
            }))
            .filter((line, i) => i === 0 || line.values.some((value) => (value ?? 0) > 0));
          return (
            <Chart
              label={title}
              times={first.times.slice(0, count)}
              lines={lines}
              format={format}
              isRangeSetter
              {...(kind ? { kind } : {})}
            />
          );
        }}
      </Shown>
    </Panel>
  );
}

const BIT_RATE: Shape = {
  title: "Bit rate",
  note: "by transport protocol",
  wanted: [
    { column: "tcp_bytes", aggregate: "sum", name: "TCP", color: 0 },
    { column: "udp_bytes", aggregate: "sum", name: "UDP", color: 1 },
    { column: "other_bytes", aggregate: "sum", name: "Other", color: "grey" },
  ],
  kind: "stacked",
  valuesOf: (series) => perSecond(series, 8),
  format: formatBitRate,
};
const PACKET_RATE: Shape = {
  title: "Packet rate",
  wanted: [
    { column: "packets", aggregate: "sum", name: "Received", color: 0 },
    { column: "dropped_packets", aggregate: "sum", name: "Dropped", color: 1 },
  ],
  valuesOf: (series) => perSecond(series, 1),
  format: formatPacketRate,
};
const FLOWS: Shape = {
  title: "Flows",
  note: "that begin and end in each step",
  wanted: [
    { column: "new_flows", aggregate: "sum", name: "New", color: 2 },
    { column: "ended_flows", aggregate: "sum", name: "Ended", color: 4 },
  ],
  valuesOf: (series) => series.series[0]?.values ?? [],
  format: (value) => formatCountOf(value, "flow"),
};

export function BitRate() {
  return <TrafficPanel {...BIT_RATE} />;
}

export function PacketRate() {
  return <TrafficPanel {...PACKET_RATE} />;
}

export function FlowCounts() {
  return <TrafficPanel {...FLOWS} />;
}
