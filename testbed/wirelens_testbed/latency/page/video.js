// A small adaptive player: fetches segments one after another, ahead of what is shown, in the
// version that the last downloads and the buffer allow, and tells what it did.
"use strict";

const TYPE = 'video/mp4; codecs="avc1.4d401f"';
const RATE_SHARE = 0.8; // of what the network gave lately: some room for what it gives next
const AVERAGE_WEIGHT = 0.3;
const BUFFER_LOW_S = 4;
const BEHIND_KEPT_S = 10;
const WAIT_MS = 100;

const seen = document.getElementById("seen");

function give(name, value) {
  return fetch(name, { method: "POST", body: JSON.stringify(value) });
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function load(url) {
  const response = await fetch(url, { cache: "no-store" });
  if (!response.ok) throw new Error(`${url}: status ${response.status}`);
  return response.arrayBuffer();
}

function settle(buffer) {
  return new Promise((resolve) => buffer.addEventListener("updateend", resolve, { once: true }));
}

async function append(buffer, bytes) {
  buffer.appendBuffer(bytes);
  await settle(buffer);
}

async function forgetWhatWasShown(buffer) {
  const end = seen.currentTime - BEHIND_KEPT_S;
  if (buffer.buffered.length === 0 || buffer.buffered.start(0) >= end) return;
  buffer.remove(0, end);
  await settle(buffer);
}

function bufferedS(buffer) {
  const ranges = buffer.buffered;
  return ranges.length ? ranges.end(ranges.length - 1) - seen.currentTime : 0;
}

function choose(rates, networkKbit, aheadS) {
  if (aheadS < BUFFER_LOW_S) return rates[0];
  const fitting = rates.filter((rate) => rate <= networkKbit * RATE_SHARE);
  return fitting.at(-1) ?? rates[0];
}

async function play(settings, buffer) {
  const loopS = settings.segments * settings.segment_s;
  let current = 0;
  let networkKbit = 0;
  for (let number = 0; ; number += 1) {
    while (bufferedS(buffer) > settings.buffer_s) await pause(WAIT_MS);
    const aheadS = bufferedS(buffer);
    const rate = choose(settings.rates_kbit, networkKbit, aheadS);
    if (rate !== current) {
      await append(buffer, await load(`${settings.origin}/${rate}/init.mp4`));
      current = rate;
    }
    const begun = performance.now();
    const bytes = await load(`${settings.origin}/${rate}/${number % settings.segments}.m4s`);
    const tookMs = performance.now() - begun;
    const gotKbit = (bytes.byteLength * 8) / tookMs;
    networkKbit = networkKbit
      ? (1 - AVERAGE_WEIGHT) * networkKbit + AVERAGE_WEIGHT * gotKbit : gotKbit;
    buffer.timestampOffset = Math.floor(number / settings.segments) * loopS;
    await append(buffer, bytes);
    await forgetWhatWasShown(buffer);
    await give("progress", {
      number, rate_kbit: rate, size_bytes: bytes.byteLength, took_ms: Math.round(tookMs),
      ahead_s: Math.round(aheadS * 100) / 100, shown_s: Math.round(seen.currentTime * 100) / 100,
    });
  }
}

async function main() {
  const settings = await (await fetch("settings")).json();
  const source = new MediaSource();
  seen.src = URL.createObjectURL(source);
  await new Promise((resolve) => source.addEventListener("sourceopen", resolve, { once: true }));
  for (const stop of ["waiting", "playing"]) {
    seen.addEventListener(stop, () => give("player", { state: stop, at_s: seen.currentTime }));
  }
  await play(settings, source.addSourceBuffer(TYPE));
}

main().catch((error) => give("failure", { message: String(error.stack || error) }));
