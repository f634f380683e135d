import { useAnswer } from "../answer.ts";
import { hasColumn, tableOf, useApp } from "../context.ts";
import { formatCount, formatDuration, formatFraction, formatShare } from "../format.ts";
import { usePlace } from "../navigate.ts";
import { Meter } from "../parts/bar.tsx";
import { Distribution } from "../parts/distribution.tsx";
import { Listed, ListingSearch, useListing } from "../parts/listing.tsx";
import { type Figure, Figures, Panel } from "../parts/panel.tsx";
import { SensorsNote } from "../parts/sensor.tsx";
import { Empty, NoTable, Shown } from "../parts/states.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { Text } from "../parts/text.tsx";
import { VerdictTable } from "../parts/verdict-table.tsx";
import { type Rec, numberOf, recordsOf, sumOf, textOf } from "../source/records.ts";
import { quote } from "../source/tokens.ts";
import { visible } from "../visible.ts";
import { DevicePanel } from "./devices.tsx";

const LABELS_MAX = 100;
/** Newest verdicts that the distribution of confidence is of. */
const SAMPLE_MAX = 2000;

interface LabelRow {
  label: string;
  flows: number;
  share: number;
  confidence: number | null;
  packets: number | null;
  wait: number | null;
}

function labelRows(groups: Rec[]): LabelRow[] {
  const total = groups.reduce((sum, group) => sum + sumOf(group, "rows"), 0);
  return groups.map((group) => ({
    label: textOf(group, "label") ?? "",
    flows: sumOf(group, "rows"),
    share: total > 0 ? sumOf(group, "rows") / total : 0,
    confidence: numberOf(group, "mean_confidence"),
    packets: numberOf(group, "mean_packets_used"),
    wait: numberOf(group, "mean_wait_ns"),
  }));
}

const COLUMNS: TableColumn<LabelRow>[] = [
  { name: "label", label: "Label", render: (row) => <Text value={row.label} /> },
  { name: "flows", label: "Flows", isNumber: true, render: (row) => formatCount(row.flows) },
  {
    name: "share",
    label: "Share",
    isNumber: true,
    render: (row) => <Meter share={row.share} text={formatShare(row.share)} />,
  },
  {
    name: "confidence",
    label: "Mean confidence",
    isNumber: true,
    render: (row) => formatFraction(row.confidence),
  },
  {
    name: "packets",
    label: "Packets used",
    isNumber: true,
    about: "Mean packets of a flow",
    render: (row) => (row.packets === null ? "–" : row.packets.toFixed(1)),
  },
  {
    name: "wait",
    label: "Wait",
    isNumber: true,
    about: "Mean time from first packet to decision",
    render: (row) => formatDuration(row.wait),
  },
];

function Labels() {
  const { source } = useApp();
  const place = usePlace();
  const answer = useAnswer(`labels ${place.key}`, async (signal) => {
    const query = {
      by: "label",
      mean: "confidence,packets_used,wait_ns",
      sort: "-rows",
      limit: LABELS_MAX,
      ...place.bounds,
    };
    const [labels, stages] = await Promise.all([
      source.groups("classify", query, signal),
      source.groups("classify", { by: "stage", sort: "-rows", ...place.bounds }, signal),
    ]);
    return { labels: labelRows(recordsOf(labels)), stages: recordsOf(stages) };
  });
  return (
    <Panel title="Labels" note="of flows, most frequent first">
      <Shown answer={answer} lines={8}>
        {({ labels, stages }) =>
          labels.length === 0 ? (
            <Empty title="No verdicts in this time range" />
          ) : (
            <>
              <Figures list={labelFigures(labels, stages)} />
              <Table
                caption="Labels"
                columns={COLUMNS}
                rows={labels}
                keyOf={(row) => row.label}
                hrefOf={(row) =>
                  place.here({ where: `label == ${quote(row.label)}`, page: undefined })
                }
              />
            </>
          )
        }
      </Shown>
    </Panel>
  );
}

function labelFigures(labels: LabelRow[], stages: Rec[]): Figure[] {
  const unknown = labels.find((row) => row.label === "unknown");
  const all = labels.reduce((sum, row) => sum + row.flows, 0);
  return [
    { label: "Verdicts", value: formatCount(all) },
    { label: "Unknown", value: formatShare(unknown?.share ?? 0) },
    ...stages.map((stage) => ({
      label: `Stage ${visible(textOf(stage, "stage") ?? "")}`,
      value: formatShare(all > 0 ? sumOf(stage, "rows") / all : null),
    })),
  ];
}

function ConfidencePanel() {
  const { source } = useApp();
  const place = usePlace();
  const answer = useAnswer(`confidence ${place.key}`, (signal) =>
    source.rows(
      "classify",
      {
        columns: "guess_confidence,label",
        sort: "-decided_ns",
        limit: SAMPLE_MAX,
        ...place.bounds,
      },
      signal,
    ),
  );
  return (
    <Panel
      title="Confidence"
      note={`of the likeliest class, newest ${formatCount(answer.data?.rows.length)} verdicts`}
    >
      <Shown answer={answer} lines={8}>
        {(found) => <Distribution rows={recordsOf(found)} />}
      </Shown>
    </Panel>
  );
}

function Verdicts() {
  const { state } = useApp();
  const { sort = "-decided_ns" } = usePlace().query;
  const listing = useListing("verdicts", "classify", sort);
  return (
    <Panel title="Verdicts">
      <ListingSearch
        listing={listing}
        label="Filter verdicts"
        columns={tableOf(state, "classify")?.columns ?? []}
        example='label == "unknown" and guess_confidence > 0.5'
      />
      <Listed
        listing={listing}
        noun="verdicts"
        lines={12}
        empty={<Empty title="No verdict matches" />}
      >
        {(verdicts) => <VerdictTable verdicts={verdicts} sorting={listing.sorting} />}
      </Listed>
    </Panel>
  );
}

export function Services() {
  const { state } = useApp();
  const table = tableOf(state, "classify");
  const isByHost = hasColumn(table, "host");
  const hasDevices = tableOf(state, "hosts_verdicts") !== null;
  return (
    <div class="view">
      {table === null && !hasDevices && <NoTable name="classify" />}
      {table !== null && !isByHost && (
        <>
          <SensorsNote table="classify" />
          <div class="columns-wide">
            <Labels />
            <ConfidencePanel />
          </div>
          <Verdicts />
        </>
      )}
      {(hasDevices || isByHost) && <DevicePanel table={isByHost ? "classify" : "hosts_verdicts"} />}
    </div>
  );
}
