import type { LogStore } from "@muster/session-controller/log-store";
import type { World } from "./world.ts";

/** The store of kept logs, accessed over the network. */
export function makeSimLogStore({ network, keptLogs }: World): LogStore {
  const keyOf = ({ session, pod, container }: Parameters<LogStore["read"]>[0]): string =>
    `${session}/${pod}/${container}`;
  return {
    keep: (name, { bytes }) =>
      network.call("nats", `keep log ${keyOf(name)}`, () => void keptLogs.set(keyOf(name), bytes)),
    read: async (name, { offset }) => {
      const bytes = await network.call("nats", `read log ${keyOf(name)}`, () => keptLogs.get(keyOf(name)));
      const rest = (bytes ?? new Uint8Array()).subarray(offset);
      return { bytes: rest, nextOffset: offset + rest.length, complete: true, truncated: false };
    },
    forget: (session, pod) =>
      network.call("nats", `forget logs ${session}/${pod}`, () => {
        for (const key of [...keptLogs.keys()]) if (key.startsWith(`${session}/${pod}/`)) keptLogs.delete(key);
      }),
  };
}
