import { formatBytes, formatCount, formatDuration, formatShare, spanNs } from "../format.ts";
import { usePlace } from "../navigate.ts";
import { Meter } from "../parts/bar.tsx";
import { EndReason } from "../parts/flow-table.tsx";
import { Panel } from "../parts/panel.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { Label } from "../parts/verdict-table.tsx";
import type { Sighting } from "./flow-sensors-data.ts";

function columnsOf(list: Sighting[]): TableColumn<Sighting>[] {
  const most = list.reduce((max, each) => Math.max(max, each.packets ?? 0), 0);
  const first = list.find((each) => each.first !== null)?.first ?? null;
  const fewer = ({ packets }: Sighting): number | null =>
    packets === null ? null : most - packets;
  return [
    { name: "sensor", label: "Sensor", render: (row) => <Text value={row.sensor} /> },
    {
      name: "packets",
      label: "Packets",
      isNumber: true,
      about: "Both directions",
      render: (row) => formatCount(row.packets),
    },
    {
      name: "src",
      label: "From source",
      isNumber: true,
      render: (row) => formatCount(row.srcPackets),
    },
    {
      name: "dst",
      label: "From destination",
      isNumber: true,
      render: (row) => formatCount(row.dstPackets),
    },
    {
      name: "fewer",
      label: "Not seen",
      isNumber: true,
      about: "Packets fewer than at the sensor with the most",
      render: (row) => {
        const count = fewer(row);
        const share = count === null || most === 0 ? null : count / most;
        return <Meter share={share} text={`${formatCount(count)} (${formatShare(share)})`} />;
      },
    },
    { name: "bytes", label: "Bytes", isNumber: true, render: (row) => formatBytes(row.bytes) },
    { name: "first", label: "First packet", render: (row) => <Time ns={row.first} /> },
    {
      name: "after",
      label: "After the first",
      isNumber: true,
      about: "First packet here after the first packet at any sensor; clocks may differ",
      render: (row) => formatDuration(spanNs(first, row.first)),
    },
    {
      name: "last",
      label: "Duration",
      isNumber: true,
      render: (row) => formatDuration(spanNs(row.first, row.last)),
    },
    { name: "end", label: "End", render: (row) => <EndReason reason={row.end} /> },
    {
      name: "verdict",
      label: "Verdict",
      render: (row) =>
        row.verdict === null ? <span class="none">–</span> : <Label row={row.verdict} />,
    },
  ];
}

/** What each sensor saw of one flow; a sensor leads to its details, on the same page. */
export function SeenBy({ list, chosen }: { list: Sighting[]; chosen: string }) {
  const place = usePlace();
  return (
    <Panel
      title="Sensors that saw this flow"
      note={
        <>
          below: what <Text value={chosen} /> saw
        </>
      }
    >
      <Table
        caption="What each sensor saw of this flow"
        columns={columnsOf(list)}
        rows={list}
        keyOf={(row) => row.sensor}
        hrefOf={(row) => place.here({ seen_by: row.sensor })}
        rowClass={(row) => (row.sensor === chosen ? "is-chosen" : undefined)}
      />
    </Panel>
  );
}
