import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";

/** After a run: nobody asked NATS for what its user may not have, and no log holds a secret. */
export async function expectQuietLogs(directory: string): Promise<void> {
  const nats = await linesOf(join(directory, "nats/nats-server.log"));
  expect(nats.filter((line) => /violation|authentication error/i.test(line))).toEqual([]);
  const secrets = await secretsOf(directory);
  const logs = (await namesIn(join(directory, "logs"))).map((name) => join(directory, "logs", name));
  const told: string[] = [];
  for (const log of [...logs, join(directory, "nats/nats-server.log")])
    for (const line of await linesOf(log))
      if (secrets.some((secret) => line.includes(secret))) told.push(`${log}: ${line}`);
  expect(told).toEqual([]);
}

/** Seeds, or the token of a NATS that was named; the key of the provision engine; and what lets somebody in at the cluster. */
async function secretsOf(directory: string): Promise<readonly string[]> {
  const seeds = (await namesIn(join(directory, "nkeys"))).map((name) => join(directory, "nkeys", name));
  const others = ["nats.token", "provision-engine.key"].map((name) => join(directory, name));
  const files = await Promise.all([...seeds, ...others].map(linesOf));
  const kubeconfig = (await linesOf(join(directory, "kubeconfig"))).join("\n");
  const shown = [...kubeconfig.matchAll(/"?(?:token|client-key-data)"?: "?([^"\s]+)/g)].map(
    ([, secret = ""]) => secret,
  );
  return [...files.flat(), ...shown].filter((secret) => secret !== "");
}

async function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch((): string[] => []);
}

async function linesOf(file: string): Promise<string[]> {
  return (await readFile(file, "utf8").catch(() => "")).split("\n");
}
