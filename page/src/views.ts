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
  /** Tables whose rows its figures are made of. */
  tables: readonly string[];
  View: ComponentType;
}

function view(name: string, title: string, View: ComponentType, more: Partial<View> = {}): View {
  const usual = { section: name, hasRange: true, hasSensor: true, tables: [] };
  return { name, title, View, ...usual, ...more };
}

const VIEWS: View[] = [
  view("overview", "Overview", Overview, { tables: ["traffic", "flows", "classify"] }),
  view("talkers", "Talkers", Talkers, { tables: ["flows"] }),
  view("flows", "Flows", Flows, { tables: ["flows"] }),
  view("flow", "Flow", Flow, { section: "flows", hasRange: false, hasSensor: false }),
  view("hosts", "Hosts", Hosts, { tables: ["flows"] }),
  view("host", "Host", Host, { section: "hosts", tables: ["flows", "classify", "latency"] }),
  view("services", "Services and devices", Services, { tables: ["classify", "hosts_verdicts"] }),
  view("queues", "Queues", Queues, { tables: ["cca"] }),
  view("latency", "Latency", Latency, { tables: ["latency", "l4s"] }),
  view("packetlog", "Packet log", PacketLogView, { hasRange: false, hasSensor: false }),
  view("alerts", "Alerts", Alerts, { tables: ["alerts"] }),
  view("sensors", "Sensors", Sensors, { hasSensor: false }),
  view("table", "Table", AnyTable, { section: "health" }),
  view("health", "Health", HealthView, { hasRange: false, hasSensor: false }),
];

/** An address that names no view leads to the overview. */
export function viewOf(route: Route): View {
  return VIEWS.find((each) => each.name === route.path[0]) ?? VIEWS[0]!;
}
