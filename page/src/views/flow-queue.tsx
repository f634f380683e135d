import { formatBytes, formatFraction } from "../format.ts";
import { Chart } from "../parts/chart.tsx";
import { Figures, Panel } from "../parts/panel.tsx";
import { Text } from "../parts/text.tsx";
import { numberOf, type Rec, sumOf, textOf } from "../source/records.ts";

/** The direction that carries the data: both have rows under one Community ID. */
function dataDirection(rows: Rec[], sent: string): Rec[] {
  const sums = new Map<string, number>();
  const keyOf = (row: Rec): string => `${row.src_ip} ${row.src_port}`;
  for (const row of rows) sums.set(keyOf(row), (sums.get(keyOf(row)) ?? 0) + sumOf(row, sent));
  const [largest] = [...sums].sort((a, b) => b[1] - a[1])[0] ?? [""];
  return rows.filter((row) => keyOf(row) === largest);
}

/** One flow in the queue, or in flight where there is a single tap. */
export function FlowQueue({ rows }: { rows: Rec[] }) {
  const hasQueue = rows.some((row) => "cbiq_bytes" in row);
  const sorted = dataDirection(rows, hasQueue ? "egress_bytes" : "sent_bytes").sort((a, b) => {
    const [left, right] = [BigInt(a.start_ns ?? 0), BigInt(b.start_ns ?? 0)];
    return left < right ? -1 : left > right ? 1 : 0;
  });
  const named = sorted.findLast((row) => textOf(row, "control"));
  const column = hasQueue ? "cbiq_bytes" : "flight_bytes";
  const mean = sorted.map((row) => numberOf(row, column));
  const highest = sorted.map((row) => numberOf(row, column.replace("_bytes", "_max_bytes")));
  return (
    <Panel
      title={hasQueue ? "Bytes in the queue (CBIQ)" : "Bytes in flight"}
      note={
        named && (
          <>
            Congestion control: <Text value={textOf(named, "control")} />,{" "}
            {formatFraction(numberOf(named, "confidence"))}
          </>
        )
      }
    >
      {sorted.length === 1 ? (
        // A curve of one period would say nothing.
        <Figures
          list={[
            { label: "Mean", value: formatBytes(mean[0]), note: "of the one period" },
            { label: "Highest", value: formatBytes(highest[0]) },
          ]}
        />
      ) : (
        <Chart
          label={hasQueue ? "Bytes of this flow in the queue" : "Bytes of this flow in flight"}
          times={sorted.map((row) => textOf(row, "start_ns") ?? "0")}
          lines={[
            { name: "Mean", values: mean },
            { name: "Highest", color: "grey", values: highest },
          ]}
          format={formatBytes}
        />
      )}
    </Panel>
  );
}
