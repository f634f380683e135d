import { useAnswer } from "../answer.ts";
import { hasColumn, tableOf, useApp } from "../context.ts";
import { formatBytes, formatCountOf } from "../format.ts";
import { usePlace } from "../navigate.ts";
import { alertHref, Severity, useFiring } from "../parts/alert-list.tsx";
import { Events } from "../parts/events.tsx";
import { Panel } from "../parts/panel.tsx";
import { Ranking } from "../parts/ranking.tsx";
import { SensorsNote } from "../parts/sensor.tsx";
import { Empty, NoTable, Shown } from "../parts/states.tsx";
import { Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { BitRate, FlowCounts, PacketRate } from "../parts/traffic.tsx";
import { numberOf, recordsOf, sumOf, textOf } from "../source/records.ts";
import { quote } from "../source/tokens.ts";
import { KeyFigures } from "./overview-figures.tsx";
import { NewHosts, NewServices } from "./overview-new.tsx";

/** Rows of the lists on this page. */
const LIST_MAX = 8;

function TopHosts() {
  const { source, state } = useApp();
  const place = usePlace();
  const hasFlows = tableOf(state, "flows") !== null;
  const answer = useAnswer(`hosts ${hasFlows} ${place.key}`, async (signal) => {
    if (!hasFlows) return [];
    const query = { sort: "-bytes", limit: LIST_MAX, ...place.bounds };
    return recordsOf(await source.hosts(query, signal));
  });
  if (!hasFlows)
    return (
      <Panel title="Top talkers">
        <NoTable name="flows" />
      </Panel>
    );
  return (
    <Panel title="Top talkers" note={<a href={place.to(["talkers"])}>All talkers</a>}>
      <Shown answer={answer} lines={LIST_MAX}>
        {(hosts) =>
          hosts.length === 0 ? (
            <Empty title="No flows in this time range" />
          ) : (
            <Ranking
              label="Hosts by bytes sent and received"
              list={hosts.map((host) => ({
                name: textOf(host, "host"),
                href: place.to(["host", textOf(host, "host") ?? ""]),
                parts: [sumOf(host, "bytes_sent"), sumOf(host, "bytes_received")],
                text: formatBytes(sumOf(host, "bytes_sent", "bytes_received")),
                note: textOf(host, "names"),
              }))}
            />
          )
        }
      </Shown>
    </Panel>
  );
}

function TopServices() {
  const { source, state } = useApp();
  const place = usePlace();
  const flows = tableOf(state, "flows");
  const by = ["label", "app_protocol", "protocol"].find((name) => hasColumn(flows, name));
  const answer = useAnswer(`services ${by} ${place.key}`, async (signal) => {
    if (by === undefined) return [];
    const query = { by, sum: "bytes", sort: "-sum_bytes", limit: LIST_MAX, ...place.bounds };
    return recordsOf(await source.groups("flows", query, signal));
  });
  if (by === undefined)
    return (
      <Panel title="Services">
        <NoTable name="flows" />
      </Panel>
    );
  const href = (name: string | null): string | null =>
    name === null ? null : place.to(["flows"], { where: `${by} == ${quote(name)}` });
  return (
    <Panel title="Services" note={`by bytes, from the column ${by}`}>
      <Shown answer={answer} lines={LIST_MAX}>
        {(groups) =>
          groups.length === 0 ? (
            <Empty title="No flows in this time range" />
          ) : (
            <Ranking
              label="Services by bytes"
              list={groups.map((group) => ({
                name: textOf(group, by) ?? "not recognised",
                href: href(textOf(group, by)),
                parts: [sumOf(group, "sum_bytes")],
                text: formatBytes(numberOf(group, "sum_bytes")),
                note: formatCountOf(numberOf(group, "rows"), "flow"),
              }))}
            />
          )
        }
      </Shown>
    </Panel>
  );
}

function FiringAlerts() {
  const place = usePlace();
  const { state } = useApp();
  const firing = useFiring();
  const hasAlerts = tableOf(state, "alerts") !== null;
  return (
    <Panel title="Alerts" note={<a href={place.to(["alerts"])}>All alerts</a>}>
      {!hasAlerts && <Empty title="No alert rules in this run" />}
      {hasAlerts && (
        <Shown answer={firing} lines={3}>
          {(alerts) =>
            alerts.length === 0 ? (
              <Empty title="No alert is firing" />
            ) : (
              <ul class="alerts" aria-label="Firing alerts">
                {alerts.slice(0, LIST_MAX).map((alert) => (
                  <li key={JSON.stringify(alert)}>
                    <Severity name={textOf(alert, "severity")} />
                    <a href={alertHref(place, alert) ?? place.to(["alerts"])}>
                      <Text value={textOf(alert, "name")} />
                    </a>
                    <span class="alert-text">
                      <Text value={textOf(alert, "text")} />
                    </span>
                    <Time ns={textOf(alert, "time_ns")} />
                  </li>
                ))}
              </ul>
            )
          }
        </Shown>
      )}
    </Panel>
  );
}

export function Overview() {
  return (
    <div class="view">
      <KeyFigures />
      <SensorsNote />
      <div class="columns-2">
        <BitRate />
        <PacketRate />
      </div>
      <div class="columns-3">
        <TopHosts />
        <TopServices />
        <FlowCounts />
      </div>
      <div class="columns-2">
        <NewServices />
        <NewHosts />
      </div>
      <div class="columns-2">
        <FiringAlerts />
        <Events />
      </div>
    </div>
  );
}
