// Makes fixtures/sensors.json.gz: what a run over three sensors shows, with a real NATS server
// between them. The gateway's sensors are upstream and downstream of one queue, so that packets are
// lost between them; one sensor falls silent and one restarts.
//
//   npm run fixtures:sensors -- PROGRAM NATS-SERVER

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { gzipSync } from "node:zlib";

const root = new URL("../../", import.meta.url).pathname;
const program = process.argv[2] ?? `${root}target/release/wirelens`;
const broker = process.argv[3] ?? `${root}target/tools/nats-server`;
const folder = mkdtempSync(`${tmpdir()}/wirelens-sensors-`);
const TABLES = `
[traffic]
[flows]
read-names = true
[classify]
model = "services"
[latency]
[cca]
`;
const ALERT = `
[[alert]]
name = "large flow"
table = "flows"
when = "bytes > 50k"
labels = { severity = "warning" }
`;
const PATIENCE_MS = 30_000;

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

async function until(what, holds) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await holds().catch(() => null);
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await sleep(100);
  }
}

const [natsPort, pagePort] = [await freePort(), await freePort()];
const nats = `\n[nats]\nservers = ["nats://127.0.0.1:${natsPort}"]\n`;
const get = async (path) => (await fetch(`http://127.0.0.1:${pagePort}/api/v1/${path}`)).json();

function publish(sensor, capture, more = "") {
  const settings = `${folder}/${sensor}.toml`;
  const input = `[input]\nread = "${root}testdata/${capture}"\n`;
  writeFileSync(settings, `${input}${TABLES}${nats}sensor = "${sensor}"\n${more}`);
  execFileSync(program, ["run", "-q", "-c", settings], { stdio: "inherit" });
}

async function gather() {
  await until("the page", () => get("state"));
  publish("office", "demo.pcapng", ALERT);
  publish("gateway-in", "testbed/congestion/before.pcapng.gz");
  const count = async (table, where) =>
    (await get(`tables/${table}?limit=1&where=${encodeURIComponent(where)}`)).matched;
  await until("silence", async () => (await count("sensors", 'event == "silent"')) === 2);
  publish("gateway-out", "testbed/congestion/after.pcapng.gz");
  publish("gateway-in", "l4s/sender.pcap.gz");
  await until("joins", async () => (await count("joined", "sensor_count == 2")) === 3);
  const state = await get("state");
  const parts = await Promise.all(
    state.tables.map(({ name }) => get(`tables/${name}?limit=10000`)),
  );
  const health = await get("health");
  Object.assign(state, { mode: "report", is_over: true, inputs: ["nats://127.0.0.1:4222"] });
  const tables = Object.fromEntries(
    state.tables.map(({ name }, i) => [name, { columns: parts[i].columns, rows: parts[i].rows }]),
  );
  return { state, tables, health, packetlog: null };
}

const view = `[sensors]\nsilent-after = "4s"\njoin-wait = "8s"\n${TABLES}${nats}
[page]\nlisten = "127.0.0.1:${pagePort}"
[[alert]]\nname = "sensor silent"\ntable = "sensors"\nwhen = 'event == "silent"'\n`;
writeFileSync(`${folder}/view.toml`, view);
writeFileSync(
  `${folder}/nats.conf`,
  `listen: "127.0.0.1:${natsPort}"\njetstream { store_dir: "${folder}/jetstream" }\n`,
);
const started = [spawn(broker, ["-c", `${folder}/nats.conf`], { stdio: "ignore" })];
try {
  await sleep(1000);
  started.push(spawn(program, ["run", "-q", "-c", `${folder}/view.toml`], { stdio: "inherit" }));
  const report = JSON.stringify(await gather());
  const out = new URL("fixtures/sensors.json.gz", import.meta.url).pathname;
  writeFileSync(out, gzipSync(report, { level: 9 }));
  console.log("sensors", report.length);
} finally {
  started.reverse().forEach((each) => each.kill());
  await sleep(500);
  rmSync(folder, { recursive: true, force: true });
}
