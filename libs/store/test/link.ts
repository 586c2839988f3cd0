import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import type { TestNats } from "@muster/testkit";

/** A proxy to the server whose connections can be cut while the server runs. */
export type Link = AsyncDisposable & {
  readonly server: TestNats;
  /** Closes its connections and refuses new ones. */
  cut(): void;
  /** Silently drops all traffic, or only the answers, as when a cable is pulled. */
  freeze(what?: "all" | "answers"): void;
  /** Freezes the answers as soon as this text was sent to the server. Resolves at that moment. */
  freezeAfter(text: string): Promise<void>;
  mend(): void;
};

export async function link(server: TestNats): Promise<Link> {
  const target = new URL(server.url);
  const sockets = new Set<Socket>();
  let cut = false;
  let frozen = false;
  const answers = new WeakSet<Socket>();
  let awaited: { readonly text: string; readonly seen: () => void } | undefined;
  const look = (bytes: Buffer): void => {
    if (awaited === undefined || !bytes.includes(awaited.text)) return;
    for (const socket of sockets) if (answers.has(socket)) socket.pause();
    awaited.seen();
    awaited = undefined;
  };
  const proxy = createServer((near) => {
    if (cut) {
      near.destroy();
      return;
    }
    const far = connect(Number(target.port), target.hostname);
    answers.add(far);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      if (frozen) from.pause();
      from.on("data", (bytes) => {
        if (from === near) look(bytes);
        to.write(bytes);
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
  const dropAll = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    server: { ...server, url: `nats://127.0.0.1:${port}` },
    cut: () => {
      cut = true;
      dropAll();
    },
    freeze: (what = "all") => {
      frozen = what === "all";
      for (const socket of sockets) if (frozen || answers.has(socket)) socket.pause();
    },
    freezeAfter: (text) =>
      new Promise((seen) => {
        awaited = { text, seen };
      }),
    mend: () => {
      cut = false;
      frozen = false;
      for (const socket of sockets) socket.resume();
    },
    [Symbol.asyncDispose]: async () => {
      dropAll();
      proxy.close();
      await once(proxy, "close");
    },
  };
}
