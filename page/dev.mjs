// The page of dist/ over a running server: `npm run dev -- http://127.0.0.1:9417`. The server
// refuses requests of other sites, so they are passed on as if they came from its own page.

import { createReadStream } from "node:fs";
import { createServer, request as ask } from "node:http";

const TYPES = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
const [server = "http://127.0.0.1:9417", port = "9418"] = process.argv.slice(2);
const target = new URL(server);
const dist = new URL("dist/", import.meta.url);

function passOn(request, response) {
  const headers = Object.fromEntries(
    Object.entries(request.headers).filter(([name]) => !/^(sec-fetch-|origin|referer)/.test(name)),
  );
  const passed = ask(
    new URL(request.url, target),
    { method: request.method, headers: { ...headers, host: target.host } },
    (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    },
  );
  passed.on("error", () => response.destroy());
  response.on("close", () => passed.destroy());
  request.pipe(passed);
}

const proxy = createServer((request, response) => {
  if (/^\/(api|metrics)/.test(request.url)) return passOn(request, response);
  const path = request.url.split("?")[0];
  const name = path === "/" ? "index.html" : path.slice(1);
  // Only names that the build writes: nothing outside of the folder.
  if (!/^[a-z]+\.[a-z]+$/.test(name)) return response.writeHead(404).end();
  response.setHeader("content-type", TYPES[name.split(".")[1]] ?? "text/plain");
  const file = createReadStream(new URL(name, dist));
  file.on("error", () => response.writeHead(404).end());
  return file.pipe(response);
});
proxy.listen(Number(port), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${proxy.address().port}/ over ${target.href}`);
});
