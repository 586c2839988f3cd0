import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findNatsServer, startNatsServer } from "@muster/nats-server";

/** A real nats-server with JetStream, of its own port, store and token, for one test file. */
export type TestNats = AsyncDisposable & {
  readonly url: string;
  readonly token: string;
  /** Ends the process with SIGKILL; the store and the port stay. */
  kill(): Promise<void>;
  /** Starts it again on the same port and store. */
  start(): Promise<void>;
};

/** Starts nats-server. Where no binary can be had the error says how to have one: a suite never passes without it. */
export async function natsServer(): Promise<TestNats> {
  const { path: binary } = await findNatsServer({ env: process.env });
  const directory = await mkdtemp(join(tmpdir(), "muster-nats-"));
  const token = randomBytes(16).toString("hex");
  let server = await startNatsServer({ binary, directory, port: 0, token });
  const { url, port } = server;
  return {
    url,
    token,
    kill: () => server.kill(),
    start: async () => {
      server = await startNatsServer({ binary, directory, port, token });
    },
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
