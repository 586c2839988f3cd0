import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { findNatsServer, type NatsServer, startNatsServer } from "@muster/nats-server";

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
  let stopped = false;
  // One outage at a time: the second waits for the end of the first.
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    const done = last.then(() => (stopped ? undefined : work()));
    last = done.catch(() => undefined);
    return done;
  };
  return {
    url: server.url,
    token,
    kill: (awayMs) =>
      inTurn(async () => {
        await server.kill();
        await sleep(awayMs);
        server = await start(server.port);
      }),
    freeze: (forMs) =>
      inTurn(async () => {
        process.kill(server.pid, "SIGSTOP");
        await sleep(forMs);
        process.kill(server.pid, "SIGCONT");
      }),
    [Symbol.asyncDispose]: async () => {
      stopped = true;
      await last;
      await server[Symbol.asyncDispose]();
    },
  };
}
