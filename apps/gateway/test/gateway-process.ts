import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { buildProcessEnv, type TestNats } from "@muster/testkit";

const MAIN = fileURLToPath(new URL("../src/main.ts", import.meta.url));

export type GatewayProcess = AsyncDisposable & {
  readonly url: string;
  readonly pid: number;
  /** Kills the process, as a crash would. */
  kill(): Promise<void>;
};

/** Starts a gateway in a separate process. Resolves once it serves. */
export async function startGatewayProcess(
  nats: Pick<TestNats, "url" | "token">,
  variables: Readonly<Record<string, string>>,
  nodeArguments: readonly string[] = [],
): Promise<GatewayProcess> {
  const child = spawn(process.execPath, [...nodeArguments, MAIN], {
    stdio: ["ignore", "ignore", "pipe"],
    env: {
      ...buildProcessEnv(),
      MUSTER_NATS_URL: nats.url,
      MUSTER_NATS_TOKEN: nats.token,
      GATEWAY_ADDR: "127.0.0.1:0",
      ...variables,
    },
  });
  const exited = once(child, "exit");
  const stop = async (signal: "SIGTERM" | "SIGKILL"): Promise<void> => {
    child.kill(signal);
    await exited;
  };
  const { promise: url, resolve } = Promise.withResolvers<string>();
  createInterface({ input: child.stderr }).on("line", (line) => {
    const found = /"url":"([^"]+)".*serving the API/.exec(line)?.[1];
    if (found !== undefined) resolve(found);
  });
  const ended = exited.then(() => {
    throw new Error("the gateway ended before it served");
  });
  return {
    url: await Promise.race([url, ended]),
    pid: child.pid ?? 0,
    kill: () => stop("SIGKILL"),
    [Symbol.asyncDispose]: () => stop("SIGTERM"),
  };
}
