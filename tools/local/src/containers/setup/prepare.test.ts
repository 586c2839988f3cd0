import { mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { X509Certificate } from "node:crypto";
import { NATS_USERS, getPublicKey } from "@muster/nats-server";
import { afterEach, beforeEach, expect, it } from "vitest";
import { prepare, type Setup } from "./prepare.ts";

const SERVICES = ["watcher", "session-controller", "provision-engine", "gateway"];
const DAY_MS = 86_400_000;
const NOW = Date.UTC(2026, 0, 1);

let root: string;
let setup: Setup;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "muster-setup-"));
  const folders = ["nats", "client", "data", "cluster", "access", ...SERVICES.map((name) => `keys/${name}`)];
  for (const folder of folders) await mkdir(join(root, folder), { recursive: true });
  await writeFile(join(root, "compose.yml"), "");
  const { uid, gid } = await stat(root);
  setup = { root, service: { uid, gid }, natsPort: 4333, kubernetesPort: 6444, nowMs: NOW };
});
afterEach(() => rm(root, { recursive: true, force: true }));

const read = (file: string): Promise<string> => readFile(join(root, file), "utf8");
async function everything(): Promise<ReadonlyMap<string, string>> {
  const found = await readdir(root, { recursive: true, withFileTypes: true });
  const files = found.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return new Map(await Promise.all(files.map(async (file) => [file, await readFile(file, "utf8")] as const)));
}

/** NATS accepts the key of each client, and each client trusts the certificate of NATS. */
async function expectComplete(): Promise<void> {
  const users = await read("nats/users.conf");
  for (const service of SERVICES) {
    expect(users).toContain(`nkey: ${getPublicKey((await read(`keys/${service}/nats.nk`)).trim())}`);
    const authority = new X509Certificate(await read(`keys/${service}/ca.crt`));
    const certificate = new X509Certificate(await read("nats/tls.crt"));
    expect(certificate.verify(authority.publicKey)).toBe(true);
  }
  expect(users).toContain(`nkey: ${getPublicKey((await read("client/cli.nk")).trim())}`);
  expect(users).toContain(`nkey: ${getPublicKey((await read("client/backup.nk")).trim())}`);
  expect(await read("client/ca.crt")).toBe(await read("keys/watcher/ca.crt"));
  expect(await read("keys/provision-engine/engine.key")).toMatch(/^[0-9a-f]{64}\n$/);
  expect(await read("client/gateway.token")).toMatch(/^[\w-]{43}\n$/);
  expect(await read("client/gateway.token")).toBe(await read("keys/gateway/token"));
  expect(await read("keys/gateway/session-keys")).toMatch(/^[\w-]{43}\n$/);
  const { token } = JSON.parse(await read("cluster/state/credentials.json")) as { token: string };
  expect(JSON.parse(await read("client/kubeconfig"))).toMatchObject({
    clusters: [{ cluster: { server: "https://127.0.0.1:6444" } }],
    users: [{ user: { token } }],
  });
}

it("gives each service only its own key, readable by its owner only", async () => {
  await prepare(setup);
  await expectComplete();
  expect(await readdir(join(root, "keys"))).toEqual(SERVICES.toSorted());
  expect(await readdir(join(root, "keys/watcher"))).toEqual(["ca.crt", "nats.nk"]);
  expect(await readdir(join(root, "keys/provision-engine"))).toEqual(["ca.crt", "engine.key", "nats.nk"]);
  expect(await readdir(join(root, "keys/gateway"))).toEqual(["ca.crt", "nats.nk", "session-keys", "token"]);
  expect(JSON.parse(await read("client/local.json"))).toEqual({
    natsUrl: "tls://localhost:4333",
    natsNkeyFile: "cli.nk",
    natsBackupNkeyFile: "backup.nk",
    natsCaFile: "ca.crt",
  });
  const files = [...(await everything()).keys()].filter((file) => !file.endsWith("compose.yml"));
  const modes = await Promise.all(files.map(async (file) => (await stat(file)).mode & 0o777));
  expect(new Set(modes)).toEqual(new Set([0o600]));
  const seeds = await Promise.all(NATS_USERS.map((user) => read(`kept/nkeys/${user}`)));
  expect(new Set(seeds).size).toBe(NATS_USERS.length);
});

it("changes nothing the second time, and trusts the same authority after a renewal", async () => {
  await prepare(setup);
  const before = await everything();
  expect(await prepare({ ...setup, nowMs: NOW + 300 * DAY_MS })).toEqual([]);
  expect(await everything()).toEqual(before);
  expect(await prepare({ ...setup, nowMs: NOW + 340 * DAY_MS })).toEqual([
    { kind: "make-certificate", because: "ends-soon" },
  ]);
  await expectComplete();
  const after = await everything();
  const changed = [...after.keys()].filter((file) => after.get(file) !== before.get(file));
  expect(changed.map((file) => file.slice(root.length + 1)).toSorted()).toEqual([
    "kept/tls.crt",
    "kept/tls.key",
    "nats/tls.crt",
    "nats/tls.key",
  ]);
});

it("recreates any file that a killed run left missing, empty, or half written under its temporary name", async () => {
  await prepare(setup);
  const files = [...(await everything()).keys()].filter((file) => !file.endsWith("compose.yml"));
  // Tests the files of one user, because those of all users are written alike.
  for (const file of files.filter((each) => !each.includes("kept/nkeys/") || each.endsWith("/watcher"))) {
    await rm(file);
    await writeFile(`${file}.new`, "half");
    await prepare(setup);
    await expectComplete();
    await truncate(file);
    await prepare(setup);
    await expectComplete();
  }
  expect([...(await everything()).keys()].toSorted()).toEqual([...files, join(root, "compose.yml")].toSorted());
});

it("writes no kubeconfig of the embedded cluster where the user's cluster is used", async () => {
  await prepare(setup);
  const kubeconfigs = join(root, "theirs");
  await mkdir(kubeconfigs);
  await writeFile(join(kubeconfigs, "watcher.kubeconfig"), "theirs");
  await prepare({ ...setup, kubeconfigs });
  expect(await readdir(join(root, "client"))).toEqual(["backup.nk", "ca.crt", "cli.nk", "gateway.token", "local.json"]);
  expect(await read("keys/watcher/kubeconfig")).toBe("theirs");
});

it("names the file that holds no seed, and does not show its content", async () => {
  await prepare(setup);
  const file = join(root, "kept/nkeys/watcher");
  await writeFile(file, "SUNKNOWN");
  const failed = prepare(setup);
  await expect(failed).rejects.toThrow(`${file} holds no seed of an nkey: remove the file to create a new one`);
  await expect(failed).rejects.not.toThrow(/SUNKNOWN/);
});
