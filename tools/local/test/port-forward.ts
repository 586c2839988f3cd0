import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "@muster/testkit";

/** Delay before a new kubectl process. */
const AGAIN_MS = 200;

/** A local port that forwards to a Service. */
export type Forwarded = AsyncDisposable & { readonly port: number };

/**
 * Forwards a local port to a Service until disposal. `kubectl port-forward` ends with the pod that it chose, so it is restarted on the same port.
 */
export async function forwardPort(
  env: NodeJS.ProcessEnv,
  to: { readonly namespace: string; readonly service: string; readonly port: number },
): Promise<Forwarded> {
  const stop = new AbortController();
  let port = 0;
  const forward = async (): Promise<void> => {
    const words = ["--namespace", to.namespace, "port-forward", `service/${to.service}`, `${port || ""}:${to.port}`];
    const running = spawn("kubectl", words, { env, stdio: ["ignore", "pipe", "pipe"] });
    // Never its own: it would keep the output of a test run open if it outlives the run.
    running.stderr.pipe(process.stderr, { end: false });
    const ended = once(running, "exit");
    const kill = (): void => void running.kill();
    stop.signal.addEventListener("abort", kill);
    let said = "";
    running.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      if (port > 0) return;
      said += chunk;
      port = Number(/127\.0\.0\.1:(\d+) ->/.exec(said)?.[1] ?? 0);
    });
    await ended;
    stop.signal.removeEventListener("abort", kill);
  };
  const keep = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      await forward();
      await sleep(AGAIN_MS, undefined, { signal: stop.signal }).catch(() => undefined);
    }
  };
  const kept = keep();
  const dispose = async (): Promise<void> => {
    stop.abort();
    await kept;
  };
  try {
    await until("the port is forwarded", () => port > 0, { timeoutMs: 60_000 });
  } catch (error) {
    await dispose();
    throw error;
  }
  return { port, [Symbol.asyncDispose]: dispose };
}
