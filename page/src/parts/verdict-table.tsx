import { formatCount, formatDuration, formatFraction } from "../format.ts";
import { useApp } from "../context.ts";
import { usePlace } from "../navigate.ts";
import { numberOf, type Rec, textOf } from "../source/records.ts";
import { Meter } from "./bar.tsx";
import { destinationOf, flowQuery, sourceOf } from "./flow-table.tsx";
import { hasSensors, withSensor } from "./sensor.tsx";
import { type Sorting, Table, type TableColumn } from "./table.tsx";
import { Text } from "./text.tsx";
import { Time } from "./time.tsx";
import { titleOf, visible } from "../visible.ts";

export function Label({ row }: { row: Rec }) {
  const label = textOf(row, "label");
  const guess = textOf(row, "guess");
  if (label !== "unknown") return <Text value={label} />;
  return (
    <>
      <span class="none">unknown</span>
      {guess && guess !== "unknown" && (
        <span class="note" title={titleOf(guess)}>
          {" "}
          ({visible(guess)}?)
        </span>
      )}
    </>
  );
}

export function Confidence({ row }: { row: Rec }) {
  const own = numberOf(row, "confidence");
  const confidence = own ?? numberOf(row, "guess_confidence");
  return <Meter share={confidence} text={formatFraction(confidence)} />;
}

const COLUMNS: TableColumn<Rec>[] = [
  { name: "src", label: "Source", sort: "src_ip", render: (row) => <Text value={sourceOf(row)} /> },
  {
    name: "dst",
    label: "Destination",
    sort: "dst_ip",
    render: (row) => <Text value={destinationOf(row)} />,
  },
  { name: "label", label: "Label", sort: "label", render: (row) => <Label row={row} /> },
  {
    name: "confidence",
    label: "Confidence",
    sort: "confidence",
    isNumber: true,
    about: "Probability that the label is right; for unknown, of the likeliest class",
    render: (row) => <Confidence row={row} />,
  },
  {
    name: "stage",
    label: "Stage",
    sort: "stage",
    about: "The model that decided",
    render: (row) => <Text value={textOf(row, "stage")} />,
  },
  {
    name: "cause",
    label: "Cause",
    sort: "cause",
    render: (row) => <Text value={textOf(row, "cause")} />,
  },
  {
    name: "packets_used",
    label: "Packets used",
    sort: "packets_used",
    isNumber: true,
    render: (row) => formatCount(numberOf(row, "packets_used")),
  },
  {
    name: "wait_ns",
    label: "Wait",
    sort: "wait_ns",
    isNumber: true,
    about: "From the first packet to the decision",
    render: (row) => formatDuration(numberOf(row, "wait_ns")),
  },
  {
    name: "decided_ns",
    label: "Decided at",
    sort: "decided_ns",
    render: (row) => <Time ns={textOf(row, "decided_ns")} />,
  },
];

export function VerdictTable({ verdicts, sorting }: { verdicts: Rec[]; sorting?: Sorting }) {
  const place = usePlace();
  const isOfSensors = hasSensors(useApp().state, "classify");
  return (
    <Table
      caption="Verdicts"
      columns={withSensor(COLUMNS, isOfSensors, "dst")}
      rows={verdicts}
      keyOf={(row) =>
        `${row.community_id} ${row.first_ns} ${row.window_start_ns ?? ""} ${row.sensor ?? ""}`
      }
      hrefOf={(row) => {
        return place.to(["flow", textOf(row, "community_id") ?? ""], flowQuery(row));
      }}
      {...(sorting ? { sorting } : {})}
    />
  );
}
