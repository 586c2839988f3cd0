import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Child, startChild } from "@muster/local/child";
import { startKubeApiServer } from "@muster/testkit";
import { makeOneAtATime } from "./one-at-a-time.ts";

export type ApiServerKind = "embedded" | "real";

/** The API server of a run. The faults are injected in front of it. */
export type ApiServerProcess = AsyncDisposable & {
  /** File of a kubeconfig that bypasses the injected faults. */
  readonly kubeconfig: string;
  /** Credentials of nodes; undefined where they use client certificates of the server's authority. */
  readonly kubelet: Kubelet | undefined;
  /** Sends SIGKILL, and restarts the server after `awayMs` on its stored state; a kill during that follows it. Undefined where that is impossible. */
  readonly kill: ((awayMs: number) => Promise<void>) | undefined;
};

export type Kubelet = { readonly token: string; readonly certificate: { readonly cert: string; readonly key: string } };

export async function startApiServerProcess(kind: ApiServerKind, directory: string): Promise<ApiServerProcess> {
  if (kind === "embedded") return startEmbedded(directory);
  const server = await startKubeApiServer();
  return {
    kubeconfig: server.kubeconfig,
    kubelet: undefined,
    kill: undefined,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

async function startEmbedded(directory: string): Promise<ApiServerProcess> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const accessFile = join(directory, "kubelet.json");
  const start = (port: number): Child =>
    startChild({
      name: "api-server",
      entry: join(import.meta.dirname, "api-server-main.ts"),
      args: [directory, String(port), accessFile],
      env: {},
      logFile: join(directory, "api-server.log"),
    });
  let child = start(0);
  // Allows one outage at a time, because two servers would share one state.
  const outages = makeOneAtATime();
  const { kubeconfig, port } = await child.line(readStarted);
  const killOnce = async (awayMs: number): Promise<void> => {
    await child.kill();
    await sleep(awayMs);
    child = start(port);
    await child.line(readStarted);
  };
  return {
    kubeconfig,
    kubelet: readKubelet(await readFile(accessFile, "utf8")),
    kill: (awayMs) => outages.run(() => killOnce(awayMs)),
    [Symbol.asyncDispose]: async () => {
      await outages.stop();
      await child.stop();
    },
  };
}

export function readApiServerArguments(args: readonly string[]): {
  readonly directory: string;
  readonly port: number;
  readonly accessFile: string;
} {
  const [directory = "", port = "0", accessFile = ""] = args;
  return { directory, port: Number(port), accessFile };
}

function readStarted(line: string): { readonly kubeconfig: string; readonly port: number } | undefined {
  if (!line.startsWith('{"kubeconfig"')) return undefined;
  const { kubeconfig, port } = JSON.parse(line) as { kubeconfig: string; port: number };
  return { kubeconfig, port };
}

function readKubelet(text: string): Kubelet {
  return JSON.parse(text) as Kubelet;
}
