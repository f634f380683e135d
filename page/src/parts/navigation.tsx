import { useEffect, useState } from "preact/hooks";
import { tableOf, useApp } from "../context.ts";
import { usePlace } from "../navigate.ts";
import { useFiring } from "./alert-list.tsx";

const GROUPS = [
  { title: "Traffic", views: ["overview", "talkers", "flows", "hosts"] },
  { title: "Analysis", views: ["services", "queues", "latency"] },
  { title: "Operation", views: ["packetlog", "alerts", "sensors", "health"] },
];
const LABELS: Record<string, string> = {
  overview: "Overview",
  talkers: "Talkers",
  flows: "Flows",
  hosts: "Hosts",
  services: "Services",
  queues: "Queues",
  latency: "Latency",
  packetlog: "Packet log",
  alerts: "Alerts",
  sensors: "Sensors",
  health: "Health",
};

function Mark() {
  return (
    <svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
      <circle cx="12" cy="12" r="9.5" />
      <path d="M2.5 12h4l2.5-5 4 10 3-8 1.5 3h4" />
    </svg>
  );
}

export function Navigation({ current }: { current: string }) {
  const { state, route } = useApp();
  const place = usePlace();
  const firing = useFiring();
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(false), [route]);
  // Only where results come from sensors.
  const isThere = (name: string): boolean => name !== "sensors" || tableOf(state, name) !== null;
  const count = firing.data?.length ?? 0;
  return (
    <header class={`side ${isOpen ? "is-open" : ""}`}>
      <div class="side-head">
        <a class="brand" href={place.to(["overview"])}>
          <Mark />
          Wirelens
        </a>
        <button
          type="button"
          class="menu"
          aria-expanded={isOpen}
          aria-controls="views"
          onClick={() => setOpen(!isOpen)}
        >
          {LABELS[current]}
          <span aria-hidden="true">{isOpen ? "▴" : "▾"}</span>
        </button>
      </div>
      <nav id="views" aria-label="Views">
        {GROUPS.map((group) => (
          <div key={group.title} class="nav-group">
            <p>{group.title}</p>
            <ul>
              {group.views.filter(isThere).map((name) => (
                <li key={name}>
                  <a href={place.to([name])} aria-current={name === current ? "page" : undefined}>
                    {LABELS[name]}
                    {name === "alerts" && count > 0 && (
                      <span class="badge" aria-label={`${count} firing`}>
                        {count}
                      </span>
                    )}
                  </a>
                </li>
              ))}
            </ul>
          </div>
        ))}
      </nav>
      <p class="version">Version {state.version}</p>
    </header>
  );
}
