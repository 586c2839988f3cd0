import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { join } from "node:path";
import type { KubeConfig } from "@kubernetes/client-node";
import * as testkit from "@muster/testkit";
import { loadKube } from "../src/index.ts";

/** An API server without nodes, for one test file. */
export type TestApiServer = testkit.TestApiServer & { readonly config: KubeConfig };

export type ApiServerCase = Omit<testkit.ApiServerCase, "start"> & { readonly start: () => Promise<TestApiServer> };

/** The servers on which the tests run. The title of a skipped one states the reason. */
export function apiServers(): readonly ApiServerCase[] {
  return testkit.listApiServers(startEmbedded).map(({ start, ...rest }) => ({
    ...rest,
    start: async () => {
      const server = await start();
      return { ...server, config: loadKube(server.kubeconfig) };
    },
  }));
}

const EMBEDDED = join(import.meta.dirname, "../../../tools/devcluster/src/main.ts");

/** Starts a separate process, because the embedded API server depends on this library and cannot be imported here. */
async function startEmbedded({ directory }: { readonly directory: string }) {
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
    kubeconfig,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await exit;
    },
  };
}
