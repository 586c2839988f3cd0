import { spawn } from "node:child_process";
import { once } from "node:events";
import { buildProcessEnv, until } from "@muster/testkit";

/** The watcher as it is deployed: a process of its own. */
export type WatcherProcess = AsyncDisposable & {
  /** Requests one of its health endpoints. Resolves once it listens. */
  http(path: string): Promise<Response>;
  /** Resolves when the process has taken the signal; SIGKILL and SIGTERM: when it has ended. */
  signal(signal: "SIGKILL" | "SIGTERM" | "SIGSTOP" | "SIGCONT"): Promise<void>;
  /** Undefined while it runs. */
  exitCode(): number | undefined;
};

export function startWatcherProcess(
  world: { readonly natsUrl: string; readonly token: string; readonly kubeconfig: string },
  env: Readonly<Record<string, string>> = {},
): WatcherProcess {
  const child = spawn(process.execPath, ["src/main.ts"], {
    cwd: new URL("..", import.meta.url).pathname,
    env: {
      ...buildProcessEnv(),
      MUSTER_NATS_URL: world.natsUrl,
      MUSTER_NATS_TOKEN: world.token,
      MUSTER_KUBECONFIG: world.kubeconfig,
      ...env,
    },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const exited = once(child, "exit");
  let output = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const address = (): string | undefined => /"http":"(?:http:\/\/)?([^"]+)"/.exec(output)?.[1];
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  const signal: WatcherProcess["signal"] = async (name) => {
    child.kill(name);
    if (name === "SIGKILL" || name === "SIGTERM") await exited;
  };
  return {
    http: async (path) => {
      const listening = await until("the watcher says where it listens", () => {
        if (hasEnded()) throw new Error(`the watcher has ended: ${output}`);
        return address() ?? false;
      });
      return fetch(`http://${listening}${path}`);
    },
    signal,
    exitCode: () => child.exitCode ?? undefined,
    [Symbol.asyncDispose]: async () => {
      if (!hasEnded()) await signal("SIGKILL");
    },
  };
}
