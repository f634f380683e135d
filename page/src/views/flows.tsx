import { tableOf, useApp } from "../context.ts";
import { usePlace } from "../navigate.ts";
import { FlowTable } from "../parts/flow-table.tsx";
import { Listed, ListingSearch, useListing } from "../parts/listing.tsx";
import { Panel } from "../parts/panel.tsx";
import { hasSensors } from "../parts/sensor.tsx";
import { Empty, NoTable } from "../parts/states.tsx";

export function Flows() {
  const { state } = useApp();
  const { sort = "-first_ns" } = usePlace().query;
  const table = tableOf(state, "flows");
  const listing = useListing(table && "flows", "flows", sort);
  if (table === null) return <NoTable name="flows" />;
  const note = hasSensors(state, "flows")
    ? "A row for each sensor that saw a flow, when the flow has ended there"
    : "Open flows are included with their packets so far";
  const empty = (
    <Empty title="No flow matches">
      <p>Change the filter, or choose a longer time range.</p>
    </Empty>
  );
  return (
    <div class="view">
      <ListingSearch
        listing={listing}
        label="Filter flows"
        columns={table.columns}
        example="ip == 10.0.0.0/8 and dst_port == 443"
      />
      <Panel title="Flows" note={note}>
        <Listed listing={listing} noun="flows" lines={16} empty={empty}>
          {(flows) => <FlowTable caption="Flows" flows={flows} sorting={listing.sorting} />}
        </Listed>
      </Panel>
    </div>
  );
}
