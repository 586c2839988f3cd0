import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/** A TCP proxy that stops at a text from the client and holds all bytes from there until the gate opens. */
export type Gate = AsyncDisposable & {
  readonly port: number;
  /** Holds the stream from the next bytes that contain this text. */
  holdAt(text: string): void;
  isHolding(): boolean;
  /** Forwards the held bytes, and all later ones. */
  release(): void;
};

type Connection = { readonly near: Socket; readonly far: Socket; held: Buffer[] | undefined };

export async function openGate(port: number): Promise<Gate> {
  const open = new Set<Connection>();
  let wanted: string | undefined;
  const server = createServer((near) => {
    const connection: Connection = { near, far: connect(port, "127.0.0.1"), held: undefined };
    const { far } = connection;
    open.add(connection);
    near.on("data", (bytes) => {
      if (wanted !== undefined && bytes.includes(wanted)) connection.held ??= [];
      if (connection.held === undefined) far.write(bytes);
      else connection.held.push(bytes);
    });
    far.pipe(near);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.on("error", () => undefined);
      one.on("close", () => {
        open.delete(connection);
        other.destroy();
      });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    holdAt: (text) => {
      wanted = text;
    },
    isHolding: () => [...open].some(({ held }) => held !== undefined),
    release: () => {
      wanted = undefined;
      for (const connection of open) {
        for (const bytes of connection.held ?? []) connection.far.write(bytes);
        connection.held = undefined;
      }
    },
    [Symbol.asyncDispose]: async () => {
      for (const { near } of open) near.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
