// Visits one page after another, as told, and tells how long each took to load.
"use strict";

const LOAD_MAX_MS = 60000;
const page = document.getElementById("page");

function give(name, value) {
  return fetch(name, { method: "POST", body: JSON.stringify(value) });
}

function visit(url) {
  return new Promise((resolve) => {
    const late = setTimeout(() => resolve(false), LOAD_MAX_MS);
    page.onload = () => {
      clearTimeout(late);
      resolve(true);
    };
    page.src = url;
  });
}

async function main() {
  for (;;) {
    const next = await (await fetch("next")).json();
    const begun = performance.now();
    const loaded = await visit(next.url);
    const tookMs = Math.round(performance.now() - begun);
    await give("progress", { page: next.page, loaded, took_ms: tookMs });
    await new Promise((resolve) => setTimeout(resolve, next.think_ms));
  }
}

main().catch((error) => give("failure", { message: String(error.stack || error) }));
