import { useApp } from "../context.ts";
import { formatSecond } from "../format.ts";
import type { Live } from "../live.ts";
import type { Settings, Theme } from "../settings.ts";
import { SensorChoice } from "./sensor.tsx";
import { Text } from "./text.tsx";
import { TimeRange } from "./time-range.tsx";

const NEXT: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
const LABELS: Record<Theme, string> = { auto: "Auto", light: "Light", dark: "Dark" };

function Status({ isPaused }: { isPaused: boolean }) {
  const { state, connection, zone } = useApp();
  const inputs = state.inputs.join(", ");
  if (connection === "lost") return <p class="status is-lost">Connection lost</p>;
  const last = formatSecond(state.now, zone);
  if (state.mode === "live" && !state.is_over) {
    return (
      <p class={`status ${isPaused ? "" : "is-live"}`}>
        {isPaused ? "Paused" : "Live"} <Text value={inputs} />
      </p>
    );
  }
  const kind = state.mode === "report" ? "Report" : state.is_over ? "Finished" : "Reading";
  return (
    <p class="status">
      {kind} <Text value={inputs} />
      <span class="note">up to {last}</span>
    </p>
  );
}

interface Properties {
  view: { title: string; hasRange: boolean; hasSensor: boolean };
  settings: Settings;
  live: Live;
}

export function TopLine({ view, settings, live }: Properties) {
  const { zone, theme, setZone, setTheme } = settings;
  const { title, hasRange, hasSensor } = view;
  return (
    <div class="top-line">
      <h1>{title}</h1>
      <Status isPaused={live.isPaused} />
      {live.state?.mode === "live" && !live.state.is_over && (
        <button type="button" class="pause" onClick={() => live.setPaused(!live.isPaused)}>
          {live.isPaused ? "Resume" : "Pause"}
        </button>
      )}
      <div class="top-actions">
        {hasSensor && <SensorChoice />}
        {hasRange && <TimeRange />}
        <button
          type="button"
          title="Time zone of all times"
          onClick={() => setZone(zone === "utc" ? "local" : "utc")}
        >
          <span class="hidden">Time zone: </span>
          {zone === "utc" ? "UTC" : "Local"}
        </button>
        <button type="button" title="Colours" onClick={() => setTheme(NEXT[theme])}>
          <span aria-hidden="true">◐ </span>
          <span class="hidden">Colours: </span>
          {LABELS[theme]}
        </button>
      </div>
    </div>
  );
}
