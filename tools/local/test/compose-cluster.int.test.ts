import { execFile } from "node:child_process";
import { mkdir, mkdtempDisposable, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { makeKubeCalls, loadKube } from "@muster/kube";
import { STANDARD } from "@muster/repo/services";
import { startKubeApiServer, findKubeAssets, buildProcessEnv, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { prepare } from "../src/containers/setup/prepare.ts";
import { ROOT } from "../src/root.ts";

const assets = findKubeAssets();
const PODS = { apiVersion: "v1", plural: "pods", namespace: "default" };
const ACCOUNTS = { apiVersion: "v1", plural: "serviceaccounts", namespace: "muster-system" };
const PROGRAM = join(ROOT, "tools/local/src/containers/compose-cluster/main.ts");

const SKIPPED = assets.found ? "" : ` (skipped: ${assets.reason})`;
it.skipIf(!assets.found)(
  `grants the services of docker-compose.yml only their own rights in a cluster, and renews expired tokens${SKIPPED}`,
  { timeout: 120_000 },
  async () => {
    await using stack = new AsyncDisposableStack();
    const { path: root } = stack.use(await mkdtempDisposable(join(tmpdir(), "muster-compose-cluster-")));
    const server = stack.use(await startKubeApiServer());
    for (const folder of ["nats", "client", "data", "cluster", "access", ...STANDARD.map((name) => `keys/${name}`)])
      await mkdir(join(root, folder), { recursive: true });
    await writeFile(join(root, "compose.yml"), "");
    const granted = join(root, "client/cluster");
    const setup = {
      root,
      service: await stat(root),
      natsPort: 4222,
      kubernetesPort: 6443,
      nowMs: Date.now(),
      kubeconfigs: granted,
    };
    await expect(prepare(setup)).rejects.toThrow(
      /has no <service>\.kubeconfig; `npm run compose-cluster -- KUBECONFIG` writes them/,
    );

    const env = { ...buildProcessEnv(), MUSTER_COMPOSE_DIRECTORY: join(root, "client") };
    const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM, server.kubeconfig], { env });
    expect(stdout).toMatch(/^reservation-manager: needs no access$/m);
    const [, endsAt = ""] = /^good until (\S+):/m.exec(stdout) ?? [];
    expect(Date.parse(endsAt)).toBeGreaterThan(Date.now() + 3_000_000);
    await prepare(setup);

    const having = STANDARD.filter((name) => name !== "reservation-manager");
    expect((await readdir(granted)).toSorted()).toEqual(having.map((name) => `${name}.kubeconfig`).toSorted());
    const fileOf = (name: string): string => join(root, "keys", name, "kubeconfig");
    const texts = await Promise.all(having.map((name) => readFile(fileOf(name), "utf8")));
    expect(new Set(texts).size).toBe(having.length);
    const users = texts.map((text) => (JSON.parse(text) as { users: { user: object }[] }).users);
    for (const [only, ...others] of users) expect([Object.keys(only?.user ?? {}), others]).toEqual([["token"], []]);
    for (const name of having) expect((await stat(fileOf(name))).mode & 0o077).toBe(0);
    expect(await readdir(join(root, "keys/reservation-manager"))).not.toContain("kubeconfig");

    await using watcher = makeKubeCalls(loadKube(fileOf("watcher")));
    expect((await watcher.list(PODS)).items).toEqual([]);
    await expect(watcher.delete(PODS, "some")).rejects.toThrow(/forbidden/i);

    // The tokens of the account expire with it, and otherwise after an hour.
    await using admin = makeKubeCalls(loadKube(server.kubeconfig));
    await admin.delete(ACCOUNTS, "watcher");
    // The API server caches its verdict on a token for some seconds.
    await until("the token of the watcher has expired", () => watcher.list(PODS).then(() => false, isUnauthorized), {
      timeoutMs: 60_000,
      everyMs: 500,
    });
    await promisify(execFile)(process.execPath, [PROGRAM, server.kubeconfig], { env });
    await prepare(setup);
    expect((await watcher.list(PODS)).items).toEqual([]);
  },
);

function isUnauthorized(error: unknown): boolean {
  if (error instanceof Error && "code" in error && error.code === 401) return true;
  throw error;
}
