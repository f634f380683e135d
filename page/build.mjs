// Writes dist/: the page for the server, and report.html, into which the server puts data.

import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const SIZE_MAX = 200_000;
const PLACE = "<!--WIRELENS-REPORT-DATA-->";
const root = new URL(".", import.meta.url);
const dist = new URL("dist/", root);

await mkdir(dist, { recursive: true });
const written = new Set([".sources"]); // That one is tools/page.sh's.
const bundled = await build({
  absWorkingDir: root.pathname,
  entryPoints: { app: "src/main.tsx" },
  outdir: "dist",
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
  write: false,
});
const contentOf = (name) => bundled.outputFiles.find((file) => file.path.endsWith(name)).text;
const script = contentOf("app.js");
const styles = `${contentOf("app.css")}`;
const icon = await readFile(new URL("src/icon.svg", root), "utf8");
const notice = await notices(["preact", "uplot"]);

await put("app.js", notice + script);
await put("app.css", styles);
await put("icon.svg", icon);
await put(
  "index.html",
  document({
    head: [
      '<link rel="icon" href="icon.svg" type="image/svg+xml">',
      '<link rel="stylesheet" href="app.css">',
      '<script src="app.js" defer></script>',
    ],
    body: [],
  }),
);
await put("report.html", report());

// The server embeds the compressed files as well, and sends them to browsers that take them.
const parts = ["index.html", "app.js", "app.css", "icon.svg"];
let total = 0;
for (const name of [...parts, "report.html"]) {
  const compressed = gzipSync(await readFile(new URL(name, dist)), { level: 9 });
  await put(`${name}.gz`, compressed);
  if (parts.includes(name)) total += compressed.length;
  console.log(`${name.padEnd(12)} ${String(compressed.length).padStart(7)} B gzip`);
}
console.log(`${"total".padEnd(12)} ${String(total).padStart(7)} B gzip, at most ${SIZE_MAX}`);
if (total > SIZE_MAX) throw new Error("the page is too large");
for (const name of await readdir(dist)) {
  if (!written.has(name)) await rm(new URL(name, dist), { recursive: true });
}

/** Writes a file of dist/ where it has changed: cargo compiles the server after each write. */
async function put(name, content) {
  written.add(name);
  const place = new URL(name, dist);
  const before = await readFile(place).catch(() => null);
  if (!before?.equals(Buffer.from(content))) await writeFile(place, content);
}

/** The licences of bundled packages ask that their notice stays with the code. */
async function notices(names) {
  const texts = names.map(async (name) => {
    const licence = await readFile(new URL(`node_modules/${name}/LICENSE`, root), "utf8");
    return `${name}:\n${licence.trim()}`;
  });
  return `/*!\n${(await Promise.all(texts)).join("\n\n").replaceAll("*/", "* /")}\n*/\n`;
}

function document({ head, body }) {
  return [
    "<!doctype html>",
    '<html lang="en">',
    "<head>",
    '<meta charset="utf-8">',
    ...head,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    '<meta name="referrer" content="no-referrer">',
    "<title>Wirelens</title>",
    "</head>",
    "<body>",
    '<div id="page"></div>',
    "<noscript>This page needs JavaScript.</noscript>",
    ...body,
    "</body>",
    "</html>",
    "",
  ].join("\n");
}

function report() {
  // Both would end or change how the element around them is parsed.
  const code = notice + script;
  if (/<\/script|<!--/i.test(code)) throw new Error("the script cannot be put into HTML");
  if (/<\/style|<!--/i.test(styles)) throw new Error("the styles cannot be put into HTML");
  const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  const policy = [
    "default-src 'none'",
    `script-src ${hash(code)}`,
    `style-src ${hash(styles)}`,
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const image = `data:image/svg+xml;base64,${Buffer.from(icon).toString("base64")}`;
  return document({
    head: [
      `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
      `<link rel="icon" href="${image}">`,
      `<style>${styles}</style>`,
    ],
    body: [PLACE, `<script>${code}</script>`],
  });
}
