// A run over many sensors: how each stands, what happened to them, and flows that several saw.

import { useAnswer } from "../answer.ts";
import { tableOf, useApp } from "../context.ts";
import { formatCount, formatDuration, formatShare } from "../format.ts";
import { usePlace } from "../navigate.ts";
import { Meter } from "../parts/bar.tsx";
import { destinationOf, sourceOf } from "../parts/flow-table.tsx";
import { Listed, ListingSearch, useListing } from "../parts/listing.tsx";
import { Figures, Panel } from "../parts/panel.tsx";
import { SENSORS_MAX } from "../parts/sensor.tsx";
import { Empty, NoTable, Shown } from "../parts/states.tsx";
import { Table, type TableColumn } from "../parts/table.tsx";
import { Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { isSensor, SENSORS } from "../source/one-sensor.ts";
import { numberOf, type Rec, recordsOf, textOf } from "../source/records.ts";
import type { TableInfo } from "../source/source.ts";
import { visible } from "../visible.ts";
import { lostBetween, type SensorState, statesOf, totalsOf } from "./sensors-data.ts";

/** Each sensor has at most six kinds of events. */
const EVENTS_MAX = SENSORS_MAX * 6;
const IS_NOW = 'event == "now"';

/** Whole seconds: a count that runs is easier to read. */
function secondsText(seconds: number): string {
  return seconds < 59.5 ? `${Math.round(seconds)}\u00a0s` : formatDuration(seconds * 1e9);
}

function Sign({ isSilent, silentS }: SensorState) {
  if (!isSilent) {
    return (
      <span class="check check-ok">
        <span aria-hidden="true">✓</span> heard
      </span>
    );
  }
  return (
    <span class="check check-warning">
      <span aria-hidden="true">!</span> silent for {secondsText(silentS ?? 0)}
    </span>
  );
}

/** A count that should be zero. */
function Loss({ count }: { count: number | null }) {
  return count !== null && count > 0 ? (
    <span class="loss">{formatCount(count)}</span>
  ) : (
    <>{formatCount(count)}</>
  );
}

function shareOf({ received, dropped }: SensorState): number | null {
  return received === null || dropped === null || received === 0 ? null : dropped / received;
}

function Dropped(state: SensorState) {
  const share = shareOf(state);
  const isLoss = (state.dropped ?? 0) > 0;
  const text = `${formatCount(state.dropped)} (${formatShare(share)})`;
  return (
    <span class={isLoss ? "loss" : undefined}>
      <Meter share={share} text={share === null ? formatCount(state.dropped) : text} />
    </span>
  );
}

const STATES: TableColumn<SensorState>[] = [
  { name: "name", label: "Sensor", render: (row) => <Text value={row.name} /> },
  { name: "state", label: "State", render: (row) => <Sign {...row} /> },
  {
    name: "restarted",
    label: "Restarted",
    about: "The last restart, and how many were seen",
    render: (row) =>
      row.restarts === 0 ? (
        <span class="none">–</span>
      ) : (
        <>
          <Time ns={row.restartedNs} hasDate />
          {row.restarts > 1 && <span class="note"> {formatCount(row.restarts)}×</span>}
        </>
      ),
  },
  {
    name: "received",
    label: "Packets received",
    isNumber: true,
    about: "In its present run, from its last metrics",
    render: (row) => formatCount(row.received),
  },
  {
    name: "dropped",
    label: "Dropped",
    isNumber: true,
    about: "Packets that the sensor lost, and their share of those received",
    render: (row) => <Dropped {...row} />,
  },
  {
    name: "rows",
    label: "Rows",
    isNumber: true,
    about: "Received here, of all its runs",
    render: (row) => formatCount(row.rows),
  },
  {
    name: "missing",
    label: "Rows missing",
    isNumber: true,
    about: "Published and not received here",
    render: (row) => <Loss count={row.missing} />,
  },
  {
    name: "lost",
    label: "Rows lost",
    isNumber: true,
    about: "Lost at the sensor before they were published",
    render: (row) => <Loss count={row.lost} />,
  },
  {
    name: "event",
    label: "Event time",
    about: "Of its last metrics",
    render: (row) => <Time ns={row.eventNs} hasDate />,
  },
];

function NothingHeard() {
  const { state } = useApp();
  const servers = state.inputs.map((each) => `"${visible(each)}"`).join(", ");
  const lines = ["[nats]", `servers = [${servers}]`, 'prefix = "wirelens"', 'sensor = "roof-east"'];
  return (
    <Empty title="No sensor was heard so far">
      <p>
        Check that each sensor reports <code>nats: connected</code>, and that its{" "}
        <code>[nats]</code> has a server of this broker, the same <code>prefix</code> as this run,
        and a name of its own:
      </p>
      <pre tabIndex={0} aria-label="Lines for the settings of a sensor">
        {lines.join("\n")}
      </pre>
    </Empty>
  );
}

function figuresOf(states: SensorState[]) {
  const totals = totalsOf(states);
  const loss = (label: string, count: number, note?: string) => ({
    label,
    value: formatCount(count),
    ...(note === undefined ? {} : { note }),
    ...(count > 0 ? { tone: "warning" as const } : {}),
  });
  const share = formatShare(totals.received > 0 ? totals.dropped / totals.received : null);
  return [
    { label: "Sensors", value: formatCount(states.length) },
    loss("Silent", totals.silent),
    { label: "Packets received", value: formatCount(totals.received) },
    loss("Packets dropped", totals.dropped, share),
    loss("Rows missing", totals.missing),
    loss("Rows lost", totals.lost),
  ];
}

function States() {
  const { source, state } = useApp();
  const place = usePlace();
  const hasFlows = tableOf(state, "flows") !== null;
  // Of this sensor, whichever is chosen for other views.
  const flowsOf = (name: string): string =>
    place.to(["flows"], { where: isSensor(name), sensor: undefined });
  const answer = useAnswer("sensors", async (signal) => {
    const [now, events] = await Promise.all([
      source.rows(SENSORS, { where: IS_NOW, sort: "-time_ns", limit: SENSORS_MAX }, signal),
      source.groups(
        SENSORS,
        { by: "sensor,event", max: "time_ns", where: `not ${IS_NOW}`, limit: EVENTS_MAX },
        signal,
      ),
    ]);
    return statesOf(recordsOf(now), recordsOf(events));
  });
  return (
    <Shown answer={answer} lines={8}>
      {(states) => (
        <>
          <Figures list={figuresOf(states)} />
          <Panel title="Sensors" {...(hasFlows ? { note: "a sensor leads to its flows" } : {})}>
            {states.length === 0 ? (
              <NothingHeard />
            ) : (
              <Table
                caption="Sensors"
                columns={STATES}
                rows={states}
                keyOf={(row) => row.name}
                hrefOf={(row) => (hasFlows ? flowsOf(row.name) : null)}
              />
            )}
          </Panel>
        </>
      )}
    </Shown>
  );
}

const TONES: Record<string, string> = { silent: "check-warning", back: "check-ok" };

const EVENTS: TableColumn<Rec>[] = [
  {
    name: "sensor",
    label: "Sensor",
    sort: "sensor",
    render: (row) => <Text value={textOf(row, "sensor")} />,
  },
  {
    name: "time",
    label: "Time",
    sort: "time_ns",
    about: "By the clock of this machine",
    render: (row) => <Time ns={textOf(row, "time_ns")} hasDate />,
  },
  {
    name: "event",
    label: "Event",
    sort: "event",
    render: (row) => (
      <span class={`check ${TONES[textOf(row, "event") ?? ""] ?? ""}`}>
        <Text value={textOf(row, "event")} />
      </span>
    ),
  },
  {
    name: "rows",
    label: "Rows",
    isNumber: true,
    sort: "rows",
    about: "Received here until then",
    render: (row) => formatCount(numberOf(row, "rows")),
  },
  {
    name: "missing",
    label: "Rows missing",
    isNumber: true,
    sort: "rows_missing",
    render: (row) => <Loss count={numberOf(row, "rows_missing")} />,
  },
  { name: "run", label: "Run", sort: "run", render: (row) => <Text value={textOf(row, "run")} /> },
];

function SensorEvents({ table }: { table: TableInfo }) {
  const { events_sort: sort = "-time_ns" } = usePlace().query;
  const choice = { part: "events", only: `not ${IS_NOW}` };
  const listing = useListing("events of sensors", SENSORS, sort, choice);
  return (
    <Panel title="Events of sensors">
      <ListingSearch
        listing={listing}
        label="Filter events of sensors"
        columns={table.columns}
        example='event == "silent"'
      />
      <Listed listing={listing} noun="events" lines={4} empty={<Empty title="No event matches" />}>
        {(rows) => (
          <Table
            caption="Events of sensors"
            columns={EVENTS}
            rows={rows}
            keyOf={(row) => `${row.sensor} ${row.time_ns} ${row.event}`}
            sorting={listing.sorting}
          />
        )}
      </Listed>
    </Panel>
  );
}

const JOINED: TableColumn<Rec>[] = [
  { name: "src", label: "Source", sort: "src_ip", render: (row) => <Text value={sourceOf(row)} /> },
  {
    name: "dst",
    label: "Destination",
    sort: "dst_ip",
    render: (row) => <Text value={destinationOf(row)} />,
  },
  {
    name: "protocol",
    label: "Protocol",
    sort: "protocol",
    render: (row) => <Text value={textOf(row, "protocol")} />,
  },
  {
    name: "sensors",
    label: "Sensors",
    sort: "sensors",
    isWide: true,
    about: "In the order of their first packets",
    render: (row) => <Text value={textOf(row, "sensors")} />,
  },
  {
    name: "packets",
    label: "Packets",
    isNumber: true,
    sort: "packets_max",
    about: "Both directions, at the sensor with the most",
    render: (row) => formatCount(numberOf(row, "packets_max")),
  },
  {
    name: "lost",
    label: "Lost between",
    isNumber: true,
    about: "Packets that the sensor with the fewest did not see",
    render: (row) => {
      const { packets, share } = lostBetween(row);
      return <Meter share={share} text={`${formatCount(packets)} (${formatShare(share)})`} />;
    },
  },
  {
    name: "first",
    label: "First packet",
    sort: "first_ns",
    render: (row) => <Time ns={textOf(row, "first_ns")} hasDate />,
  },
  {
    name: "spread",
    label: "Spread",
    isNumber: true,
    sort: "first_spread_s",
    about: "From the first packet at the first sensor to that at the last; clocks may differ",
    render: (row) => formatDuration((numberOf(row, "first_spread_s") ?? 0) * 1e9),
  },
];

function JoinedFlows({ table }: { table: TableInfo }) {
  const place = usePlace();
  const { joined_sort: sort = "-first_ns" } = place.query;
  const listing = useListing("joined flows", table.name, sort, { part: "joined" });
  const empty = (
    <Empty title="No flow was seen at several sensors">
      <p>
        A flow is listed when it has ended and <code>join-wait</code> has passed.
      </p>
    </Empty>
  );
  return (
    <Panel title="Flows seen at several sensors" note="joined by Community ID and time">
      <ListingSearch
        listing={listing}
        label="Filter flows seen at several sensors"
        columns={table.columns}
        example='sensors contains "roof-east" and packets_max > 100'
      />
      <Listed listing={listing} noun="flows" lines={6} empty={empty}>
        {(rows) => (
          <Table
            caption="Flows seen at several sensors"
            columns={JOINED}
            rows={rows}
            keyOf={(row) => `${row.community_id} ${row.first_ns}`}
            hrefOf={(row) => {
              const first = textOf(row, "first_ns") ?? undefined;
              return place.to(["flow", textOf(row, "community_id") ?? ""], { first_ns: first });
            }}
            sorting={listing.sorting}
          />
        )}
      </Listed>
    </Panel>
  );
}

export function Sensors() {
  const { state } = useApp();
  const sensors = tableOf(state, SENSORS);
  const joined = tableOf(state, "joined");
  return (
    <div class="view">
      {sensors === null ? (
        <NoTable name={SENSORS} />
      ) : (
        <>
          <States />
          {joined !== null && <JoinedFlows table={joined} />}
          <SensorEvents table={sensors} />
        </>
      )}
    </div>
  );
}
