import { useAnswer } from "../answer.ts";
import { tableOf, useApp } from "../context.ts";
import { type Rec, recordsOf, textOf } from "../source/records.ts";
import { Panel } from "./panel.tsx";
import { Empty, Shown } from "./states.tsx";
import { Text } from "./text.tsx";
import { Time } from "./time.tsx";

const LIST_MAX = 8;

/** What a terminal would have shown: a source that vanished, settings that were reloaded. */
export function Events() {
  const { source, state } = useApp();
  const hasEvents = tableOf(state, "events") !== null;
  const answer = useAnswer<Rec[]>(`events ${hasEvents}`, async (signal) => {
    if (!hasEvents) return [];
    const query = { sort: "-time_ns", limit: LIST_MAX };
    return recordsOf(await source.rows("events", query, signal));
  });
  return (
    <Panel title="Events">
      <Shown answer={answer} lines={3}>
        {(events) =>
          events.length === 0 ? (
            <Empty title="No events so far" />
          ) : (
            <ul class="events" aria-label="Latest events">
              {events.map((event, index) => (
                <li key={`${event.time_ns} ${index}`}>
                  <Time ns={textOf(event, "time_ns")} hasDate />
                  <span class="note">
                    <Text value={textOf(event, "source")} />
                  </span>
                  <span class="event-text">
                    <Text value={textOf(event, "text")} />
                  </span>
                </li>
              ))}
            </ul>
          )
        }
      </Shown>
    </Panel>
  );
}
