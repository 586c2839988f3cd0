import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findFreePort } from "./free-ports.ts";
import { findNatsServer, makeNkey, NATS_USERS, type NatsUserName, startNatsServer } from "@muster/nats-server";

/** A real nats-server with JetStream, with a separate port, store and token, for one test file. */
export type TestNats = AsyncDisposable & {
  readonly url: string;
  readonly token: string;
  /** The nkey of a user, where the server has users. */
  seedOf(user: NatsUserName): string;
  /** Access for a connection of the test itself, with all rights. */
  readonly access: { readonly url: string; readonly token?: string; readonly nkey?: { readonly seed: string } };
  /** Variables for a process that connects as this user, with the rights of that user if the server has users. */
  variablesOf(user: NatsUserName): Readonly<Record<string, string>>;
  /** Ends the process with SIGKILL; the store and the port stay. */
  kill(): Promise<void>;
  /** Removes the store of a server that was killed. */
  loseStore(): Promise<void>;
  /** Starts it again on the same port and store, which from now on may hold so much. */
  start(maxStoreBytes?: number): Promise<void>;
};

/**
 * Starts nats-server. Without a binary, the error states how to install one: a suite never passes without it. `users`: admits the users of an installation,
 * each with its rights, instead of clients with the token. `syncAlways`: acknowledges a write once it is on disk.
 */
export async function startTestNats(
  options: { readonly users?: boolean; readonly syncAlways?: boolean } = {},
): Promise<TestNats> {
  const { path: binary } = await findNatsServer({ env: process.env });
  const directory = await mkdtemp(join(tmpdir(), "muster-nats-"));
  const token = randomBytes(16).toString("hex");
  const keys = new Map(NATS_USERS.map((user) => [user, makeNkey()]));
  const seedOf = (user: NatsUserName): string => keys.get(user)?.seed ?? "";
  const observer = makeNkey();
  const hasUsers = options.users === true;
  const users = hasUsers
    ? { users: (user: NatsUserName) => keys.get(user)?.publicKey ?? "", observer: observer.publicKey }
    : {};
  const startAt = (at: number, maxStoreBytes?: number) =>
    startNatsServer({
      binary,
      directory,
      port: at,
      token,
      maxStoreBytes,
      syncAlways: options.syncAlways === true,
      ...users,
    });
  // No system assigns this port to a connection while the server is down.
  const port = await findFreePort();
  let server = await startAt(port);
  const { url } = server;
  return {
    url,
    token,
    seedOf,
    access: hasUsers ? { url, nkey: { seed: observer.seed } } : { url, token },
    variablesOf: (user) => ({
      MUSTER_NATS_URL: url,
      ...(hasUsers ? { MUSTER_NATS_NKEY: seedOf(user) } : { MUSTER_NATS_TOKEN: token }),
    }),
    kill: () => server.kill(),
    loseStore: () => rm(join(directory, "store"), { recursive: true }),
    start: async (maxStoreBytes) => {
      server = await startAt(port, maxStoreBytes);
    },
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
