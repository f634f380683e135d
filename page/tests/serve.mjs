// A server with the program's HTTP interface over a report's data: tests of the live page need
// neither the program nor traffic. `node tests/serve.mjs office 9417` shows it in a browser.

import { createReadStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { build } from "esbuild";
import { fixture } from "./browser.mjs";

const root = new URL("../", import.meta.url).pathname;
export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; " +
  "img-src 'self' data:; connect-src 'self'";
const TYPES = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };

async function reportSource(data) {
  const out = await mkdtemp(`${root}node_modules/.serve-`);
  await build({
    entryPoints: [`${root}src/source/report.ts`],
    outfile: `${out}/report.mjs`,
    bundle: true,
    format: "esm",
    logLevel: "warning",
  });
  const { ReportSource } = await import(`${out}/report.mjs`);
  await rm(out, { recursive: true });
  return new ReportSource(data);
}

function answerOf(source, data, path, query) {
  const [name, first, second] = path.split("/").map(decodeURIComponent);
  const q = Object.fromEntries(
    Object.entries(query).map(([key, value]) => [
      key,
      ["limit", "offset", "series"].includes(key) ? Number(value) : value,
    ]),
  );
  if (name === "state") return data.state;
  if (name === "tables" && second === undefined) return source.rows(first, q);
  if (name === "tables") return source[second](first, q);
  if (name === "flows") return source.flow(first, q.first_ns);
  if (name === "hosts") return first === undefined ? source.hosts(q) : source.host(first);
  if (path === "packetlog") return data.packetlog;
  if (path === "packetlog/search")
    return data.found ?? { columns: [], rows: [], matched: 0, is_cut: false };
  if (name === "health") return data.health;
  throw new Error(`no path ${path}`);
}

/** Serves until `close` is called. `announce` sends the state to all pages. */
export async function serve(data, port = 0) {
  const source = await reportSource(data);
  const streams = new Set();
  const asked = [];
  const sendState = (stream) =>
    stream.write(
      `event: state\ndata: ${JSON.stringify({
        ...data.state,
        tables: data.state.tables.map(({ columns, ...table }) => table),
      })}\n\n`,
    );
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, "http://localhost");
    response.setHeader("content-security-policy", POLICY);
    if (pathname === "/api/v1/stream") {
      response.writeHead(200, { "content-type": "text/event-stream" });
      streams.add(response);
      response.on("close", () => streams.delete(response));
      sendState(response);
      return;
    }
    if (pathname.startsWith("/api/v1/")) {
      asked.push(request.url);
      response.setHeader("content-type", "application/json");
      try {
        const path = pathname.slice("/api/v1/".length);
        const answer = await answerOf(source, data, path, Object.fromEntries(searchParams));
        response.end(JSON.stringify(answer));
      } catch (error) {
        response.writeHead(400).end(JSON.stringify({ error: error.message }));
      }
      return;
    }
    const name = pathname === "/" ? "index.html" : pathname.slice(1);
    const file = createReadStream(`${root}dist/${name}`);
    file.on("error", () => response.writeHead(404).end());
    response.setHeader("content-type", TYPES[name.split(".").at(-1)] ?? "text/plain");
    file.pipe(response);
  });
  await new Promise((done) => server.listen(port, "127.0.0.1", done));
  return {
    port: server.address().port,
    address: `http://127.0.0.1:${server.address().port}/`,
    asked,
    announce: () => {
      data.state.sequence += 1;
      for (const stream of streams) sendState(stream);
    },
    close: () =>
      new Promise((done) => {
        server.close(done);
        server.closeAllConnections();
      }),
  };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const server = await serve(fixture(process.argv[2] ?? "office"), Number(process.argv[3] ?? 0));
  console.log(server.address);
}
