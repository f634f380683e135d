import { useAnswer } from "../answer.ts";
import { useApp } from "../context.ts";
import { formatDuration } from "../format.ts";
import { usePlace } from "../navigate.ts";
import { Chart } from "../parts/chart.tsx";
import { Panel } from "../parts/panel.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { chartBounds, stepMs, stepText } from "../range.ts";
import type { TableInfo } from "../source/source.ts";
import { shapeOf } from "./latency-columns.tsx";

/** Ends of flows are drawn by the second, periods by the shortest that is reported. */
const FLOW_STEP_MS = 1000;
const PERIOD_STEP_MS = 100;

/** Percentiles of percentiles mean nothing: the worst of each step is drawn, and said so. */
export function LatencyOverTime({ table }: { table: TableInfo }) {
  const { source } = useApp();
  const place = usePlace();
  const { prefix, isByFlow, hasPeriods } = shapeOf(table);
  const answer = useAnswer(`latency over time ${place.key}`, async (signal) => {
    const bounds = chartBounds(table, place.bounds);
    const step = stepText(stepMs(table, bounds, hasPeriods ? PERIOD_STEP_MS : FLOW_STEP_MS));
    const ask = (column: string, aggregate: "max" | "min") =>
      source.series("latency", { value: column, aggregate, step, ...bounds }, signal);
    return Promise.all([
      ask(`${prefix}rtt_p99_ns`, "max"),
      ask(`${prefix}rtt_p50_ns`, "max"),
      ask(`${prefix}rtt_min_ns`, "min"),
    ]);
  });
  if (table.time === null) return null;
  const noun = isByFlow ? "flows" : "destinations";
  return (
    <Panel
      title="RTT over time"
      note={`from the tap to the destination and back; highest of the ${noun} in each step`}
    >
      <Shown answer={answer} lines={6}>
        {([p99, p50, min]) =>
          p99.times.length === 0 ? (
            <Empty title="No latency was measured in this time range" />
          ) : (
            <Chart
              label="RTT over time"
              times={p99.times}
              format={formatDuration}
              isRangeSetter
              lines={[
                { name: "Highest P99", values: p99.series[0]?.values ?? [], color: 1 },
                { name: "Highest P50", values: p50.series[0]?.values ?? [], color: 0 },
                { name: "Lowest RTT", values: min.series[0]?.values ?? [], color: "grey" },
              ]}
            />
          )
        }
      </Shown>
    </Panel>
  );
}
