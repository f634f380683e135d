// An address for every view, with the report that has something to show there.

export const VIEWS = {
  overview: { report: "office", hash: "#/overview" },
  talkers: { report: "office", hash: "#/talkers?by=pair" },
  flows: { report: "office", hash: "#/flows?sort=-bytes" },
  flow: { report: "office", hash: "#/flow/1%3AG1Z5gnRlaQ5nXqPj2N8%2FejVH1xI%3D" },
  hosts: { report: "office", hash: "#/hosts" },
  host: { report: "office", hash: "#/host/10.20.0.11" },
  services: { report: "office", hash: "#/services" },
  queues: { report: "queue", hash: "#/queues" },
  in_flight: { report: "sender", hash: "#/queues" },
  latency: { report: "office", hash: "#/latency" },
  l4s: { report: "sender", hash: "#/latency" },
  packetlog: { report: "office", hash: "#/packetlog" },
  alerts: { report: "office", hash: "#/alerts" },
  health: { report: "office", hash: "#/health" },
  any_table: { report: "office", hash: "#/table/flows" },
  sensors: { report: "sensors", hash: "#/sensors" },
  sensors_overview: { report: "sensors", hash: "#/overview" },
  sensors_flows: { report: "sensors", hash: "#/flows?sort=-bytes&sensor=gateway-out" },
  sensors_flow: {
    report: "sensors",
    hash: "#/flow/1%3A3UqHzrOghMCQ9P9O6WoaPR6X%2B%2FI%3D?seen_by=gateway-out",
  },
  sensors_alerts: { report: "sensors", hash: "#/alerts" },
  no_table: { report: "office", hash: "#/queues" },
};
