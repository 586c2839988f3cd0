import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { findFreePort, buildProcessEnv, until } from "@muster/testkit";

/** The output of `htpasswd -Bbn user password`: the registry accepts bcrypt only. */
const HTPASSWD = "user:$2y$10$dIkrCimU2AzWVqk5OJxTEuA0nrTIgSJD19G3tP85vH82Kn1zeqDy2";
const CREDENTIALS = Buffer.from("user:password").toString("base64");

export type Distribution = AsyncDisposable & {
  readonly host: string;
  /** The content of the config.json that `docker login` stores. */
  readonly dockerConfig: string;
  /** Status and content of a manifest, requested by tag or digest. */
  readonly manifest: (repository: string, reference: string) => Promise<{ status: number; content: Buffer }>;
};

/** Returns why the registry of the CNCF cannot be tested here; undefined where `registry` is on the PATH. */
export function describeMissingDistribution(): string | undefined {
  return spawnSync("registry", ["--version"]).status === 0 ? undefined : "registry is not on the PATH";
}

/** Starts the registry of the CNCF with its data in the folder. It demands a login as `user` for every request. */
export async function startDistribution(folder: string): Promise<Distribution> {
  const host = `127.0.0.1:${await findFreePort()}`;
  await writeFile(join(folder, "htpasswd"), HTPASSWD);
  const config = {
    version: 0.1,
    storage: { filesystem: { rootdirectory: join(folder, "data") } },
    http: { addr: host },
    auth: { htpasswd: { realm: "registry", path: join(folder, "htpasswd") } },
  };
  const file = join(folder, "registry.yaml");
  await writeFile(file, JSON.stringify(config));
  const env = { ...buildProcessEnv(), PATH: process.env["PATH"], OTEL_TRACES_EXPORTER: "none" };
  const server = spawn("registry", ["serve", file], { stdio: "ignore", env });
  const exited = once(server, "exit");
  const isUp = async (): Promise<boolean> => (await fetch(`http://${host}/v2/`)).status === 401;
  await until("the registry demands a login", isUp);
  return {
    host,
    dockerConfig: JSON.stringify({ auths: { [host]: { auth: CREDENTIALS } } }),
    manifest: async (repository, reference) => {
      const headers = { authorization: `Basic ${CREDENTIALS}`, accept: "application/vnd.oci.image.index.v1+json" };
      const response = await fetch(`http://${host}/v2/${repository}/manifests/${reference}`, { headers });
      return { status: response.status, content: Buffer.from(await response.arrayBuffer()) };
    },
    [Symbol.asyncDispose]: async () => {
      server.kill();
      await exited;
    },
  };
}
