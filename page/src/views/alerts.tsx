import { tableOf, useApp } from "../context.ts";
import { AlertTable, SENSOR_ALERTS, useFiring } from "../parts/alert-list.tsx";
import { Listed, ListingSearch, useListing } from "../parts/listing.tsx";
import { Panel } from "../parts/panel.tsx";
import { Empty, NoTable, Shown } from "../parts/states.tsx";
import type { TableInfo } from "../source/source.ts";

interface Properties {
  title: string;
  label: string;
  caption: string;
  table: TableInfo;
  part?: string;
}

function History({ title, label, caption, table, part }: Properties) {
  const listing = useListing(table.name, table.name, "-time_ns", part ? { part } : {});
  return (
    <Panel title={title} note="newest first">
      <ListingSearch
        listing={listing}
        label={label}
        columns={table.columns}
        example='severity == "critical" and state == "firing"'
      />
      <Listed listing={listing} noun="alerts" lines={8} empty={<Empty title="No alert matches" />}>
        {(alerts) => <AlertTable caption={caption} alerts={alerts} />}
      </Listed>
    </Panel>
  );
}

export function Alerts() {
  const { state } = useApp();
  const firing = useFiring();
  const table = tableOf(state, "alerts");
  const ofSensors = tableOf(state, SENSOR_ALERTS);
  if (table === null && ofSensors === null)
    return (
      <div class="view">
        <NoTable name="alerts" />
      </div>
    );
  return (
    <div class="view">
      <Panel title="Firing">
        <Shown answer={firing} lines={3}>
          {(alerts) =>
            alerts.length === 0 ? (
              <Empty title="No alert is firing" />
            ) : (
              <AlertTable caption="Firing alerts" alerts={alerts} />
            )
          }
        </Shown>
      </Panel>
      {table !== null && (
        <History title="History" label="Filter alerts" caption="Past alerts" table={table} />
      )}
      {ofSensors !== null && (
        <History
          title="Alerts of sensors"
          label="Filter alerts of sensors"
          caption="Past alerts of sensors"
          table={ofSensors}
          part="sensors"
        />
      )}
    </div>
  );
}
