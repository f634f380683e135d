// The views of the page, in the order of the navigation.

import type { ComponentType } from "preact";
import type { Route } from "./route.ts";
import { Alerts } from "./views/alerts.tsx";
import { AnyTable } from "./views/any-table.tsx";
import { Flow } from "./views/flow.tsx";
import { Flows } from "./views/flows.tsx";
import { HealthView } from "./views/health.tsx";
import { Host } from "./views/host.tsx";
import { Hosts } from "./views/hosts.tsx";
import { Latency } from "./views/latency.tsx";
import { Overview } from "./views/overview.tsx";
import { PacketLogView } from "./views/packetlog.tsx";
import { Queues } from "./views/queues.tsx";
import { Sensors } from "./views/sensors.tsx";
import { Services } from "./views/services.tsx";
import { Talkers } from "./views/talkers.tsx";

export interface View {
  name: string;
  title: string;
  /** The entry of the navigation that it belongs to. */
  section: string;
  hasRange: boolean;
  /** Whether it shows rows of sensors, of which the reader may choose one. */
  hasSensor: boolean;
  View: ComponentType;
}

function view(name: string, title: string, View: ComponentType, more: Partial<View> = {}): View {
  return { name, title, View, section: name, hasRange: true, hasSensor: true, ...more };
}

const VIEWS: View[] = [
  view("overview", "Overview", Overview),
  view("talkers", "Talkers", Talkers),
  view("flows", "Flows", Flows),
  view("flow", "Flow", Flow, { section: "flows", hasRange: false, hasSensor: false }),
  view("hosts", "Hosts", Hosts),
  view("host", "Host", Host, { section: "hosts" }),
  view("services", "Services and devices", Services),
  view("queues", "Queues", Queues),
  view("latency", "Latency", Latency),
  view("packetlog", "Packet log", PacketLogView, { hasRange: false, hasSensor: false }),
  view("alerts", "Alerts", Alerts),
  view("sensors", "Sensors", Sensors, { hasSensor: false }),
  view("table", "Table", AnyTable, { section: "health" }),
  view("health", "Health", HealthView, { hasRange: false, hasSensor: false }),
];

/** An address that names no view leads to the overview. */
export function viewOf(route: Route): View {
  return VIEWS.find((each) => each.name === route.path[0]) ?? VIEWS[0]!;
}
