import { tableOf, useApp } from "../context.ts";
import { AlertTable, useFiring } from "../parts/alert-list.tsx";
import { Listed, ListingSearch, useListing } from "../parts/listing.tsx";
import { Panel } from "../parts/panel.tsx";
import { Empty, NoTable, Shown } from "../parts/states.tsx";

export function Alerts() {
  const { state } = useApp();
  const firing = useFiring();
  const table = tableOf(state, "alerts");
  const listing = useListing(table && "alerts", "alerts", "-time_ns");
  if (table === null)
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
      <Panel title="History" note="newest first">
        <ListingSearch
          listing={listing}
          label="Filter alerts"
          columns={table.columns}
          example='severity == "critical" and state == "firing"'
        />
        <Listed
          listing={listing}
          noun="alerts"
          lines={8}
          empty={<Empty title="No alert matches" />}
        >
          {(alerts) => <AlertTable caption="Past alerts" alerts={alerts} />}
        </Listed>
      </Panel>
    </div>
  );
}
