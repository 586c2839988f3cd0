import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";

/** Checks after a run that NATS refused no user, and that no log contains a secret. */
export async function expectQuietLogs(directory: string): Promise<void> {
  const nats = await linesOf(join(directory, "nats/nats-server.log"));
  expect(nats.filter((line) => /violation|authentication error/i.test(line))).toEqual([]);
  const secrets = await secretsOf(directory);
  const logs = (await namesIn(join(directory, "logs"))).map((name) => join(directory, "logs", name));
  for (const log of [...logs, join(directory, "nats/nats-server.log")])
    expect(listLinesWith(secrets, await linesOf(log)), log).toEqual([]);
}

/** The lines that contain one of the secrets. */
export function listLinesWith(secrets: readonly string[], lines: readonly string[]): readonly string[] {
  return lines.filter((line) => secrets.some((secret) => line.includes(secret)));
}

/** The credentials of a kubeconfig. */
export function listKubeconfigSecrets(kubeconfig: string): readonly string[] {
  return [...kubeconfig.matchAll(/"?(?:token|client-key-data)"?: "?([^"\s]+)/g)].map(([, secret = ""]) => secret);
}

/** The NATS seeds, or the token of an external NATS; the key of the provision-engine; the credentials of the kubeconfig. */
async function secretsOf(directory: string): Promise<readonly string[]> {
  const seeds = (await namesIn(join(directory, "nkeys"))).map((name) => join(directory, "nkeys", name));
  const others = ["nats.token", "provision-engine.key"].map((name) => join(directory, name));
  const files = await Promise.all([...seeds, ...others].map(linesOf));
  const kubeconfig = (await linesOf(join(directory, "kubeconfig"))).join("\n");
  return [...files.flat(), ...listKubeconfigSecrets(kubeconfig)].filter((secret) => secret !== "");
}

async function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch((): string[] => []);
}

async function linesOf(file: string): Promise<string[]> {
  return (await readFile(file, "utf8").catch(() => "")).split("\n");
}
