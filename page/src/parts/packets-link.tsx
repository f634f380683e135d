import { useAnswerOnce } from "../answer.ts";
import { useApp } from "../context.ts";
import { usePlace } from "../navigate.ts";
import type { LogSearch } from "../source/source.ts";

/** Whether a packet log was recorded and can be read. */
export function useHasPackets(): boolean {
  const { source } = useApp();
  const answer = useAnswerOnce("has packet log", async (signal) => {
    const log = await source.packetLog(signal);
    return log !== null;
  });
  return answer.data === true;
}

/** Packets of a host or flow. */
export function PacketsLink({ search }: { search: LogSearch }) {
  const { source } = useApp();
  const place = usePlace();
  const address = source.pcapngAddress(search);
  if (!useHasPackets() || address === null) return null;
  const query = { host: search.host, flow: search.flow };
  return (
    <>
      {" "}
      <a class="button" href={place.to(["packetlog"], query)}>
        Show packets
      </a>{" "}
      <a class="button" href={address} download>
        Download pcapng
      </a>
    </>
  );
}
