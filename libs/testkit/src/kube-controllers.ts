import { once } from "node:events";
import { existsSync } from "node:fs";
import { open } from "node:fs/promises";
import { devNull } from "node:os";
import { join } from "node:path";
import { spawnGuarded } from "@muster/nats-server";
import { findKubeAssets } from "./kube-apiserver.ts";

const PROGRAM = "kube-controller-manager";

/**
 * Returns why a real API server cannot run the controllers of Kubernetes here, for skipped suites to show; undefined if it can. With CI=true a reason is an
 * error.
 */
export function findMissingControllers(env: NodeJS.ProcessEnv = process.env): string | undefined {
  const assets = findKubeAssets(env);
  if (!assets.found) return assets.reason;
  if (existsSync(join(assets.directory, PROGRAM))) return undefined;
  const reason = `no ${PROGRAM} in KUBEBUILDER_ASSETS`;
  if (env["CI"] === "true") throw new Error(`CI=true allows no skipped suite: ${reason}`);
  return reason;
}

/**
 * Kubernetes' own controllers for a real API server: these, by their names, as `kube-controller-manager --help` has them. Disposing ends them; they do not
 * outlive this process.
 */
export async function startKubeControllers(
  kubeconfig: string,
  controllers: readonly string[],
): Promise<AsyncDisposable> {
  await using nowhere = await open(devNull, "a");
  const flags = [`--kubeconfig=${kubeconfig}`, "--leader-elect=false", "--secure-port=0"];
  const program = join(process.env["KUBEBUILDER_ASSETS"] ?? "", PROGRAM);
  const manager = spawnGuarded(program, [...flags, `--controllers=${controllers.join(",")}`], nowhere.fd);
  await once(manager, "spawn");
  return {
    [Symbol.asyncDispose]: async () => {
      if (manager.exitCode !== null || manager.signalCode !== null) return;
      const exit = once(manager, "exit");
      manager.kill("SIGKILL");
      await exit;
    },
  };
}
