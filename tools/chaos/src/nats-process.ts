import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { findNatsServer, type NatsServer, startNatsServer } from "@muster/nats-server";
import { makeOneAtATime } from "./one-at-a-time.ts";

/** A nats-server that can be killed and restarts on the same port with its stored state. */
export type NatsProcess = AsyncDisposable & {
  readonly url: string;
  readonly token: string;
  readonly kill: (awayMs: number) => Promise<void>;
  /** Sends SIGSTOP, and SIGCONT after `forMs`. */
  readonly freeze: (forMs: number) => Promise<void>;
};

export async function startNatsProcess(options: {
  readonly directory: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}): Promise<NatsProcess> {
  const { directory, env, signal } = options;
  const { path: binary } = await findNatsServer({ env, signal });
  const token = randomBytes(24).toString("hex");
  const start = (port: number): Promise<NatsServer> => startNatsServer({ binary, directory, port, token });
  let server = await start(0);
  const outages = makeOneAtATime();
  return {
    url: server.url,
    token,
    kill: (awayMs) =>
      outages.run(async () => {
        await server.kill();
        await sleep(awayMs);
        server = await start(server.port);
      }),
    freeze: (forMs) =>
      outages.run(async () => {
        process.kill(server.pid, "SIGSTOP");
        await sleep(forMs);
        process.kill(server.pid, "SIGCONT");
      }),
    [Symbol.asyncDispose]: async () => {
      await outages.stop();
      await server[Symbol.asyncDispose]();
    },
  };
}
