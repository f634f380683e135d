import { useAnswer } from "../answer.ts";
import { useApp } from "../context.ts";
import { formatBytes, formatCount, formatCountOf } from "../format.ts";
import { usePlace } from "../navigate.ts";
import { AlertTable } from "../parts/alert-list.tsx";
import { FlowTable, flowService } from "../parts/flow-table.tsx";
import { PacketsLink } from "../parts/packets-link.tsx";
import { Figures, Panel } from "../parts/panel.tsx";
import { Ranking } from "../parts/ranking.tsx";
import { SensorsNote } from "../parts/sensor.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { Text } from "../parts/text.tsx";
import { Confidence, Label, VerdictTable } from "../parts/verdict-table.tsx";
import { type Rec, recordsOf, sumOf, textOf } from "../source/records.ts";
import type { Gathered } from "../source/source.ts";
import { quote } from "../source/tokens.ts";

/** Rows of a host that are drawn; the flows view has them all. */
const ROWS_MAX = 25;

function rowsOf(gathered: Gathered, name: string): Rec[] {
  return recordsOf(gathered.tables[name] ?? { columns: [], rows: [] });
}

interface Total {
  name: string | null;
  bytes: number;
  flows: number;
}

/** Bytes and flows by a name, largest first. */
function totals(flows: Rec[], nameOf: (flow: Rec) => string | null): Total[] {
  const sums = new Map<string | null, Total>();
  for (const flow of flows) {
    const name = nameOf(flow);
    const sum = sums.get(name) ?? { name, bytes: 0, flows: 0 };
    sum.bytes += sumOf(flow, "src_bytes", "dst_bytes");
    sum.flows += 1;
    sums.set(name, sum);
  }
  return [...sums.values()].sort((a, b) => b.bytes - a.bytes);
}

function Devices({ verdicts }: { verdicts: Rec[] }) {
  const verdict = verdicts.at(-1);
  if (verdict === undefined) return null;
  return (
    <Panel title="Device">
      <div class="verdict">
        <p class="verdict-label">
          <Label row={verdict} />
        </p>
        <Confidence row={verdict} />
        <p class="note">
          From {formatCount(sumOf(verdict, "flow_count"))} flows, by{" "}
          <Text value={textOf(verdict, "model")} />.
        </p>
      </div>
    </Panel>
  );
}

function Found({ gathered, address }: { gathered: Gathered; address: string }) {
  const place = usePlace();
  const flows = rowsOf(gathered, "flows");
  const verdicts = rowsOf(gathered, "classify");
  const alerts = rowsOf(gathered, "alerts");
  const sent = flows.reduce(
    (sum, row) => sum + sumOf(row, row.src_ip === address ? "src_bytes" : "dst_bytes"),
    0,
  );
  const all = flows.reduce((sum, row) => sum + sumOf(row, "src_bytes", "dst_bytes"), 0);
  const peerOf = (row: Rec): string | null =>
    textOf(row, row.src_ip === address ? "dst_ip" : "src_ip");
  const peers = totals(flows, peerOf);
  const allFlows = place.to(["flows"], { where: `ip == ${quote(address)}`, sort: "-bytes" });
  if (flows.length === 0 && verdicts.length === 0 && alerts.length === 0) {
    return <Empty title="No data of this host in this time range" />;
  }
  const bySize = [...flows].sort(
    (a, b) => sumOf(b, "src_bytes", "dst_bytes") - sumOf(a, "src_bytes", "dst_bytes"),
  );
  return (
    <>
      <Figures
        list={[
          { label: "Sent", value: formatBytes(sent) },
          { label: "Received", value: formatBytes(all - sent) },
          { label: "Flows", value: formatCount(flows.length) },
          { label: "Peers", value: formatCount(peers.length) },
        ]}
      />
      <div class="columns-2">
        <Panel title="Services" note="by bytes">
          <Ranking
            label="Services of this host"
            list={totals(flows, flowService)
              .slice(0, 8)
              .map((each) => ({
                name: each.name ?? "not recognised",
                href: null,
                parts: [each.bytes],
                text: formatBytes(each.bytes),
                note: formatCountOf(each.flows, "flow"),
              }))}
          />
        </Panel>
        <Panel title="Peers" note="by bytes">
          <Ranking
            label="Peers of this host"
            list={peers
              .slice(0, 8)
              .map((each) => ({
                name: each.name,
                href: place.to(["host", each.name ?? ""]),
                parts: [each.bytes],
                text: formatBytes(each.bytes),
                note: formatCountOf(each.flows, "flow"),
              }))}
          />
        </Panel>
        <Devices verdicts={rowsOf(gathered, "hosts_verdicts")} />
      </div>
      {alerts.length > 0 && (
        <Panel title="Alerts">
          <AlertTable caption="Alerts of this host" alerts={alerts} />
        </Panel>
      )}
      <Panel
        title="Flows"
        note={
          <>
            largest first · <a href={allFlows}>All {formatCount(flows.length)} flows</a>
          </>
        }
      >
        <FlowTable caption="Flows of this host" flows={bySize.slice(0, ROWS_MAX)} />
      </Panel>
      {verdicts.length > 0 && (
        <Panel title="Verdicts">
          <VerdictTable verdicts={verdicts.slice(0, ROWS_MAX)} />
        </Panel>
      )}
    </>
  );
}

export function Host() {
  const { source, route } = useApp();
  const place = usePlace();
  const address = route.path[1] ?? "";
  const answer = useAnswer(`host ${place.key}`, (signal) =>
    source.host(address, place.bounds, signal),
  );
  return (
    <div class="view">
      <div class="flow-head">
        <h2>
          <Text value={address} />
        </h2>
        <p class="flow-links">
          <PacketsLink search={{ host: address }} />
        </p>
      </div>
      <SensorsNote />
      <Shown answer={answer} lines={10}>
        {(gathered) => <Found gathered={gathered} address={address} />}
      </Shown>
    </div>
  );
}
