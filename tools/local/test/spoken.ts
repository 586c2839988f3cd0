import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";

/** After a run: nobody asked NATS for what its user may not have, and no log holds a secret. */
export async function expectQuietLogs(directory: string): Promise<void> {
  const nats = await linesOf(join(directory, "nats/nats-server.log"));
  expect(nats.filter((line) => /violation|authentication error/i.test(line))).toEqual([]);
  const secrets = await secretsOf(directory);
  const logs = (await namesIn(join(directory, "logs"))).map((name) => join(directory, "logs", name));
  for (const log of [...logs, join(directory, "nats/nats-server.log")])
    expect(linesWith(secrets, await linesOf(log)), log).toEqual([]);
}

/** Those of a log that hold one of the secrets. */
export function linesWith(secrets: readonly string[], lines: readonly string[]): readonly string[] {
  return lines.filter((line) => secrets.some((secret) => line.includes(secret)));
}

/** What lets somebody in at a cluster. */
export function secretsOfKubeconfig(kubeconfig: string): readonly string[] {
  return [...kubeconfig.matchAll(/"?(?:token|client-key-data)"?: "?([^"\s]+)/g)].map(([, secret = ""]) => secret);
}

/** Seeds, or the token of a NATS that was named; the key of the provision engine; and what lets somebody in at the cluster. */
async function secretsOf(directory: string): Promise<readonly string[]> {
  const seeds = (await namesIn(join(directory, "nkeys"))).map((name) => join(directory, "nkeys", name));
  const others = ["nats.token", "provision-engine.key"].map((name) => join(directory, name));
  const files = await Promise.all([...seeds, ...others].map(linesOf));
  const kubeconfig = (await linesOf(join(directory, "kubeconfig"))).join("\n");
  return [...files.flat(), ...secretsOfKubeconfig(kubeconfig)].filter((secret) => secret !== "");
}

async function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch((): string[] => []);
}

async function linesOf(file: string): Promise<string[]> {
  return (await readFile(file, "utf8").catch(() => "")).split("\n");
}
