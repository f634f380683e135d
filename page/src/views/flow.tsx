import type { ComponentChildren } from "preact";
import { useAnswer } from "../answer.ts";
import { tableOf, useApp } from "../context.ts";
import {
  formatBytes,
  formatCount,
  formatCountOf,
  formatDuration,
  formatFraction,
  formatMoment,
  formatTcpFlags,
  spanNs,
} from "../format.ts";
import { usePlace } from "../navigate.ts";
import { AlertTable, SENSOR_ALERTS } from "../parts/alert-list.tsx";
import { destinationOf, EndReason, flowName, sourceOf } from "../parts/flow-table.tsx";
import { type Figure, Figures, Panel } from "../parts/panel.tsx";
import { PacketsLink } from "../parts/packets-link.tsx";
import { RecordList } from "../parts/record-list.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { Text } from "../parts/text.tsx";
import { Confidence, Label } from "../parts/verdict-table.tsx";
import { SENSORS } from "../source/one-sensor.ts";
import { type Rec, numberOf, recordsOf, sumOf, textOf } from "../source/records.ts";
import type { Gathered } from "../source/source.ts";
import { visible } from "../visible.ts";
import { FlowLatency } from "./flow-latency.tsx";
import { FlowQueue } from "./flow-queue.tsx";
import { SeenBy } from "./flow-sensors.tsx";
import { occurrenceOf, rowsOfSensor, sightingsOf } from "./flow-sensors-data.ts";

/** These are in the title and the figures already. */
const IDENTITY = [
  "community_id",
  "protocol",
  "src_ip",
  "src_port",
  "dst_ip",
  "dst_port",
  "src_tcp_flags",
  "dst_tcp_flags",
  "end_reason",
  "src_packets",
  "src_bytes",
  "dst_packets",
  "dst_bytes",
];

function Summary({ flow }: { flow: Rec }) {
  const list: Figure[] = [
    {
      label: "From source",
      value: formatBytes(numberOf(flow, "src_bytes")),
      note: formatCountOf(numberOf(flow, "src_packets"), "packet"),
    },
    {
      label: "From destination",
      value: formatBytes(numberOf(flow, "dst_bytes")),
      note: formatCountOf(numberOf(flow, "dst_packets"), "packet"),
    },
    {
      label: "Duration",
      value: formatDuration(spanNs(textOf(flow, "first_ns"), textOf(flow, "last_ns"))),
    },
    {
      label: "TCP flags",
      value: formatTcpFlags(numberOf(flow, "src_tcp_flags")),
      note: `back: ${formatTcpFlags(numberOf(flow, "dst_tcp_flags"))}`,
    },
    { label: "End", value: <EndReason reason={textOf(flow, "end_reason")} /> },
  ];
  return (
    <Figures
      list={list.filter((each) => each.label !== "TCP flags" || sumOf(flow, "src_tcp_flags") > 0)}
    />
  );
}

function Verdict({ verdict }: { verdict: Rec }) {
  return (
    <div class="verdict">
      <p class="verdict-label">
        <Label row={verdict} />
      </p>
      <Confidence row={verdict} />
      <p class="note">
        Stage: <Text value={textOf(verdict, "stage")} />. Cause:{" "}
        <Text value={textOf(verdict, "cause")} />. Packets used:{" "}
        {formatCount(numberOf(verdict, "packets_used"))}. Wait:{" "}
        {formatDuration(numberOf(verdict, "wait_ns"))}. Likeliest class:{" "}
        <Text value={textOf(verdict, "guess")} />,{" "}
        {formatFraction(numberOf(verdict, "guess_confidence"))}. Model:{" "}
        <Text value={textOf(verdict, "model")} />.
      </p>
    </div>
  );
}

function Rest({ name, title, gathered }: { name: string; title: string; gathered: Gathered }) {
  const { state } = useApp();
  const part = gathered.tables[name];
  if (part === undefined || part.rows.length === 0) return null;
  const columns =
    tableOf(state, name)?.columns ??
    part.columns.map((column) => ({ name: column, type: "text" as const }));
  const records = recordsOf(part);
  const last = records.at(-1)!;
  return (
    <Panel title={title} note={records.length > 1 ? `newest of ${records.length} rows` : undefined}>
      <RecordList record={last} columns={columns} without={IDENTITY} />
    </Panel>
  );
}

interface FoundProperties {
  gathered: Gathered;
  id: string;
  /** Between the name of the flow and what is known of it. */
  children?: ComponentChildren;
}

function Found({ gathered, id, children }: FoundProperties) {
  const { state, zone } = useApp();
  const place = usePlace();
  const flows = recordsOf(gathered.tables.flows ?? { columns: [], rows: [] });
  const verdicts = recordsOf(gathered.tables.classify ?? { columns: [], rows: [] });
  const alerts = ["alerts", SENSOR_ALERTS].flatMap((name) =>
    recordsOf(gathered.tables[name] ?? { columns: [], rows: [] }),
  );
  const cca = recordsOf(gathered.tables.cca ?? { columns: [], rows: [] });
  const l4s = recordsOf(gathered.tables.l4s ?? { columns: [], rows: [] });
  const latency = recordsOf(gathered.tables.latency ?? { columns: [], rows: [] });
  const first = flows[0] ?? verdicts[0] ?? cca[0] ?? latency[0] ?? l4s[0];
  if (first === undefined) {
    return (
      <Empty title="This flow is no longer in memory">
        <p>Its rows were evicted, or it belongs to another run.</p>
      </Empty>
    );
  }
  const columns = tableOf(state, "flows")?.columns ?? [];
  const host = (name: string) => {
    const address = textOf(first, name);
    return (
      address && (
        <a href={place.to(["host", address])}>
          <Text value={address} />
        </a>
      )
    );
  };
  return (
    <>
      <div class="flow-head">
        <h2>
          <Text value={sourceOf(first)} /> <span aria-label="to">→</span>{" "}
          <Text value={destinationOf(first)} />
        </h2>
        <p class="note">
          <Text value={textOf(first, "protocol")} none="TCP" /> ·{" "}
          <Text value={flowName(first)} none="no name" />
          {" · "}
          <code>{visible(id)}</code> · first packet{" "}
          {formatMoment(textOf(first, "first_ns") ?? textOf(first, "start_ns"), zone)}
        </p>
        <p class="flow-links">
          Hosts: {host("src_ip")} {host("dst_ip")}
          <PacketsLink search={{ flow: id }} />
        </p>
      </div>
      {children}
      {flows[0] && <Summary flow={flows[0]} />}
      <div class="columns-2">
        {verdicts.length > 0 && (
          <Panel title="Service or device">
            {verdicts.map((verdict, index) => (
              <Verdict key={index} verdict={verdict} />
            ))}
          </Panel>
        )}
        {flows[0] && (
          <Panel title="Flow" note={flows.length > 1 ? `first of ${flows.length} rows` : undefined}>
            <RecordList record={flows[0]} columns={columns} without={IDENTITY} />
          </Panel>
        )}
        {cca.length > 0 && <FlowQueue rows={cca} />}
        <Rest name="l4s" title="L4S queue choice" gathered={gathered} />
      </div>
      {latency.length > 0 && <FlowLatency rows={latency} />}
      {alerts.length > 0 && (
        <Panel title="Alerts">
          <AlertTable caption="Alerts of this flow" alerts={alerts} />
        </Panel>
      )}
    </>
  );
}

/** The rows of several sensors are never mixed: one of them is shown, above it what all saw. */
function FoundBySensors({ gathered, id }: { gathered: Gathered; id: string }) {
  const { query } = usePlace();
  const span = occurrenceOf(gathered, query.first_ns);
  const list = sightingsOf(gathered, span);
  const nameOf = (name: string | undefined): string | undefined =>
    list.find((each) => each.sensor === name)?.sensor;
  const chosen = nameOf(query.seen_by) ?? nameOf(query.sensor) ?? list[0]?.sensor;
  if (chosen === undefined) return <Found gathered={gathered} id={id} />;
  return (
    <Found gathered={rowsOfSensor(gathered, chosen, span)} id={id}>
      <SeenBy list={list} chosen={chosen} />
    </Found>
  );
}

export function Flow() {
  const { source, route, state } = useApp();
  const place = usePlace();
  const isOfSensors = tableOf(state, SENSORS) !== null;
  const id = route.path[1] ?? "";
  const first = place.query.first_ns;
  const answer = useAnswer(`flow ${id} ${first}`, async (signal) => {
    if (!isOfSensors || first === undefined) return source.flow(id, first, signal);
    // At another sensor the first packet has another time.
    const all = await source.flow(id, undefined, signal);
    return occurrenceOf(all, first) === null ? source.flow(id, first, signal) : all;
  });
  return (
    <div class="view">
      <Shown answer={answer} lines={10}>
        {(gathered) =>
          isOfSensors ? (
            <FoundBySensors gathered={gathered} id={id} />
          ) : (
            <Found gathered={gathered} id={id} />
          )
        }
      </Shown>
    </div>
  );
}
