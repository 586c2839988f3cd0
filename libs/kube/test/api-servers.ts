import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { KubeConfig } from "@kubernetes/client-node";
import { kubeApiServer, kubeAssets } from "@muster/testkit";
import { loadKube } from "../src/index.ts";

/** An API server without nodes, for one test file. */
export type TestApiServer = AsyncDisposable & {
  readonly config: KubeConfig;
  /** The file that `config` was read from. */
  readonly kubeconfig: string;
};

export type ApiServerCase = {
  readonly title: string;
  readonly skip: boolean;
  readonly start: () => Promise<TestApiServer>;
};

/** The servers that what is built on this library is tried on. What is skipped says so in its title. */
export function apiServers(): readonly ApiServerCase[] {
  const assets = kubeAssets();
  return [
    { title: "the embedded API server", skip: false, start: startEmbedded },
    {
      title: assets.found ? "a real kube-apiserver" : `a real kube-apiserver (skipped: ${assets.reason})`,
      skip: !assets.found,
      start: startReal,
    },
  ];
}

const EMBEDDED = join(import.meta.dirname, "../../devcluster/src/main.ts");

/** A process of its own, and not an import: the embedded API server is built on this library. */
async function startEmbedded(): Promise<TestApiServer> {
  const directory = await mkdtemp(join(tmpdir(), "muster-kube-"));
  const child = spawn(process.execPath, [EMBEDDED, "--directory", directory, "--pools", ""], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exit = once(child, "exit");
  const firstLine = once(createInterface(child.stdout), "line");
  const [line] = (await Promise.race([
    firstLine,
    exit.then(() => Promise.reject(new Error("the embedded API server ended"))),
  ])) as [string];
  const { kubeconfig } = JSON.parse(line) as { readonly kubeconfig: string };
  return {
    config: loadKube(kubeconfig),
    kubeconfig,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await exit;
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function startReal(): Promise<TestApiServer> {
  const server = await kubeApiServer();
  return {
    config: loadKube(server.kubeconfig),
    kubeconfig: server.kubeconfig,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}
