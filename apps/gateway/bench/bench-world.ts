import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startTestNats, buildProcessEnv } from "@muster/testkit";
import { startGatewayProcess, type GatewayProcess } from "../test/gateway-process.ts";

export type BenchWorld = AsyncDisposable & {
  readonly gateway: GatewayProcess;
  readonly token: string;
  /** Runs a client to its end; resolves with its message. */
  client(file: string, ...args: readonly string[]): Promise<unknown>;
};

export type BenchOptions = {
  readonly sessions: number;
  readonly changesPerSecond?: number;
  readonly variables?: Readonly<Record<string, string>>;
};

/** The option of the image. */
const IMAGE_OPTIONS = "--max-semi-space-size=8";

/**
 * Starts NATS, the services and a gateway, each in a separate process. `BENCH_GATEWAY_NODE_OPTIONS` has further arguments of the gateway's Node, such as
 * `--cpu-prof`.
 */
export async function startBenchWorld({
  sessions,
  changesPerSecond = 0,
  variables,
}: BenchOptions): Promise<BenchWorld> {
  await using starting = new AsyncDisposableStack();
  const nats = starting.use(await startTestNats());
  const directory = await mkdtemp(join(tmpdir(), "muster-bench-"));
  starting.defer(() => rm(directory, { recursive: true, force: true }));
  const env = {
    ...buildProcessEnv(),
    BENCH_NATS_URL: nats.url,
    BENCH_NATS_TOKEN: nats.token,
    BENCH_SESSIONS: String(sessions),
    BENCH_CHANGES: String(changesPerSecond),
  };
  const services = fork(new URL("services.process.ts", import.meta.url), { env });
  starting.defer(() => void services.kill());
  const [barePort] = (await once(services, "message")) as [number];
  const tokenFile = join(directory, "token");
  const unlimited = {
    GATEWAY_REQUESTS_PER_SECOND: "100000",
    GATEWAY_REQUESTS_BURST: "1000000",
    GATEWAY_USER_STREAMS_MAX: "2000",
  };
  const nodeArguments = `${IMAGE_OPTIONS} ${process.env["BENCH_GATEWAY_NODE_OPTIONS"] ?? ""}`.trim().split(/ +/);
  const gateway = starting.use(
    await startGatewayProcess(nats, { GATEWAY_TOKEN_FILE: tokenFile, ...unlimited, ...variables }, nodeArguments),
  );
  const token = (await readFile(tokenFile, "utf8")).trim();
  const all = starting.move();
  return {
    gateway,
    token,
    client: async (file, ...args) => {
      const child = fork(new URL(file, import.meta.url), args, {
        env: {
          ...{ ...env, BENCH_HTTP_URL: gateway.url, BENCH_HTTP_TOKEN: token },
          BENCH_BARE_URL: `http://127.0.0.1:${barePort}`,
        },
      });
      const exited = once(child, "exit");
      const [message] = (await Promise.race([once(child, "message"), exited.then(failed)])) as [unknown];
      await exited;
      return message;
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function failed(): never {
  throw new Error("a client ended without figures");
}
