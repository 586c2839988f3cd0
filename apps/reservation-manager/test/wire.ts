import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import type { TestNats } from "@muster/testkit";

/** A proxy to the server that can stop a process at one of its own messages, so that a test can kill it there. */
export type Wire = AsyncDisposable & {
  readonly server: TestNats;
  /** Stops all traffic in both directions from the first message whose line has this prefix; resolves then. */
  stopBefore(line: string): Promise<void>;
  /** As `stopBefore`, but that message still reaches the server, while the server's answer does not return. */
  stopAfter(line: string): Promise<void>;
  /** Stopped messages are lost for good. */
  drop(): void;
};

type Stop = { readonly line: string; readonly including: boolean; readonly reached: () => void };

export async function openWire(server: TestNats): Promise<Wire> {
  const target = new URL(server.url);
  const sockets = new Set<Socket>();
  let stop: Stop | undefined;
  let stopped = false;
  /** The part of these bytes that still passes. */
  const passing = (bytes: Buffer): Buffer => {
    const at = stop === undefined ? -1 : bytes.indexOf(stop.line);
    if (stop === undefined || at < 0) return bytes;
    const { including, reached } = stop;
    stop = undefined;
    stopped = true;
    for (const socket of sockets) socket.pause();
    reached();
    return including ? bytes : bytes.subarray(0, at);
  };
  const proxy = createServer((near) => {
    const far = connect(Number(target.port), target.hostname);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on("data", (bytes: Buffer) => {
        if (!stopped) to.write(from === near ? passing(bytes) : bytes);
      });
      from.on("error", () => undefined);
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const { port } = proxy.address() as AddressInfo;
  const stopAt = (line: string, including: boolean): Promise<void> =>
    new Promise((reached) => {
      stop = { line, including, reached };
    });
  const drop = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    server: { ...server, url: `nats://127.0.0.1:${port}` },
    stopBefore: (line) => stopAt(line, false),
    stopAfter: (line) => stopAt(line, true),
    drop,
    [Symbol.asyncDispose]: async () => {
      drop();
      proxy.close();
      await once(proxy, "close");
    },
  };
}
