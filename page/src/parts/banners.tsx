import { tableOf, useApp } from "../context.ts";
import { formatCount, formatShare } from "../format.ts";
import { usePlace } from "../navigate.ts";
import { SENSORS } from "../source/one-sensor.ts";
import { Text } from "./text.tsx";

/** What the reader must know before any number below is believed. */
export function Banners() {
  const { state, connection } = useApp();
  const place = usePlace();
  const isOfSensors = tableOf(state, SENSORS) !== null;
  const { received, dropped } = state.packets;
  const drills = state.drills ?? [];
  return (
    <>
      {connection === "lost" && (
        <div class="banner banner-error" role="alert">
          <strong>Connection lost; reconnecting.</strong> The numbers below are the last ones
          received.
        </div>
      )}
      {drills.length > 0 && (
        <div class="banner banner-warning" role="status">
          <strong>
            Drill: this run simulates faults (<Text value={drills.join(", ")} />
            ).
          </strong>{" "}
          Losses and alerts may be caused by it, and are no fault of this machine.
        </div>
      )}
      {dropped > 0 && (
        <div class="banner banner-warning" role="status">
          <strong>
            {formatCount(dropped)} of {formatCount(received)} packets (
            {formatShare(received > 0 ? dropped / received : null)}) were dropped.
          </strong>{" "}
          Totals and flows are lower than the traffic. Set a filter, a larger{" "}
          <code>buffer-size</code> or fewer tables
          {isOfSensors ? " at the sensors that drop them. " : ". "}
          <a href={place.to([isOfSensors ? "sensors" : "health"])}>
            {isOfSensors ? "Sensors" : "Causes"}
          </a>
        </div>
      )}
    </>
  );
}
