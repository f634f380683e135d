// One end of a call. The page asks its own host what to do, exchanges one offer and one answer
// through it, and tells it once a second what the browser counts. All of that stays on loopback.
"use strict";

const STATISTICS_WANTED = new Set([
  "inbound-rtp", "outbound-rtp", "candidate-pair", "codec",
]);
const PERIOD_MS = 1000;
const NOTHING_YET = 503;
const RETRY_MS = 100;

async function take(name) {
  let response = await fetch(name);
  while (response.status === NOTHING_YET) {
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    response = await fetch(name);
  }
  if (!response.ok) throw new Error(`${name}: status ${response.status}`);
  return response.json();
}

function give(name, value) {
  return fetch(name, { method: "POST", body: JSON.stringify(value) });
}

async function openCamera(settings) {
  const stream = await navigator.mediaDevices.getUserMedia({
    video: {
      width: settings.width, height: settings.height, frameRate: settings.frames_per_second,
    },
    audio: settings.audio,
  });
  for (const track of stream.getVideoTracks()) track.contentHint = settings.content_hint;
  return stream;
}

function preferCodec(transceiver, codec) {
  // Retransmission and the rest must stay, or the call would have less repair than calls have.
  const offered = RTCRtpReceiver.getCapabilities("video").codecs;
  const wanted = offered.filter((one) => one.mimeType === `video/${codec}`);
  if (wanted.length === 0) throw new Error(`this browser has no ${codec}`);
  const repair = offered.filter((one) => /\/(rtx|red|ulpfec|flexfec-03)$/.test(one.mimeType));
  transceiver.setCodecPreferences([...wanted, ...repair]);
}

async function limitEncoder(sender, settings) {
  const parameters = sender.getParameters();
  parameters.degradationPreference = settings.degradation_preference;
  for (const encoding of parameters.encodings) {
    encoding.maxFramerate = settings.frames_per_second;
    if (settings.bits_per_s_max > 0) encoding.maxBitrate = settings.bits_per_s_max;
  }
  await sender.setParameters(parameters);
}

async function addMedia(connection, settings) {
  if (!settings.sends) return;
  const stream = await openCamera(settings);
  for (const track of stream.getTracks()) connection.addTrack(track, stream);
}

function videoTransceivers(connection) {
  return connection.getTransceivers().filter((one) => one.receiver.track.kind === "video");
}

async function describeOurselves(connection, description) {
  await connection.setLocalDescription(description);
  // All candidates in one message: on one link there are too few to be worth sending one by one.
  while (connection.iceGatheringState !== "complete") {
    await new Promise((resolve) =>
      connection.addEventListener("icegatheringstatechange", resolve, { once: true }));
  }
  await give(`${connection.localDescription.type}`, connection.localDescription);
}

async function call(connection, settings) {
  await addMedia(connection, settings);
  for (const one of videoTransceivers(connection)) preferCodec(one, settings.codec);
  await describeOurselves(connection, await connection.createOffer());
  await connection.setRemoteDescription(await take("answer"));
}

async function answer(connection, settings) {
  await connection.setRemoteDescription(await take("offer"));
  await addMedia(connection, settings);
  for (const one of videoTransceivers(connection)) preferCodec(one, settings.codec);
  await describeOurselves(connection, await connection.createAnswer());
}

async function tellStatistics(connection) {
  const report = await connection.getStats();
  const rows = [...report.values()].filter((row) => STATISTICS_WANTED.has(row.type));
  // The connection counts what reaches its encoder; only the track knows what the camera gave.
  const cameras = connection.getSenders().map((one) => one.track)
    .filter((track) => track?.kind === "video");
  for (const track of cameras) rows.push({ type: "camera", totalFrames: track.stats.totalFrames });
  await give("statistics", rows);
}

function tellEachSecond(connection) {
  // On full seconds of the wall clock, so that the rows of both ends stand side by side.
  setTimeout(async () => {
    tellEachSecond(connection);
    await tellStatistics(connection);
  }, PERIOD_MS - (Date.now() % PERIOD_MS));
}

async function main() {
  const settings = await take("settings");
  const connection = new RTCPeerConnection({ bundlePolicy: "max-bundle" });
  connection.addEventListener("connectionstatechange", () =>
    give("state", { state: connection.connectionState }));
  connection.addEventListener("track", (event) => {
    if (event.track.kind === "video") document.getElementById("seen").srcObject = event.streams[0];
  });
  await (settings.calls ? call : answer)(connection, settings);
  if (settings.sends) {
    for (const sender of connection.getSenders()) {
      if (sender.track?.kind === "video") await limitEncoder(sender, settings);
    }
  }
  tellEachSecond(connection);
}

main().catch((error) => give("failure", { message: String(error.stack || error) }));
