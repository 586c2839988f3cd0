import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, createServer } from "node:tls";
import { promisify } from "node:util";
import { findNatsServer, keyVariable, makeNkey, NATS_USERS } from "@muster/nats-server";
import { expect, it } from "vitest";
import { makeCertificate, planKeys, publicKeyOf, usersOf } from "../install-keys.ts";
import { usersConf } from "../nats-users.ts";

const NOTHING = { nkeys: undefined, tls: undefined, engine: undefined };
const asked = { users: usersOf(usersConf()), namespace: "muster-system", nowMs: Date.UTC(2026, 0, 1) };

it("makes a key for each user of NATS, a certificate and the engine's key, and tells what is public", () => {
  const made = planKeys(NOTHING, asked);
  expect(made.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
    "Secret muster-nats-nkeys",
    "Secret muster-nats-tls",
    "Secret muster-provision-engine",
    "ConfigMap muster-nats-keys",
    "ConfigMap muster-nats-ca",
  ]);
  const [seeds, tls, engine, keys, authority] = made;
  expect(Object.keys(seeds?.stringData ?? {})).toEqual(NATS_USERS.map((user) => `${user}.nk`));
  for (const user of NATS_USERS) {
    const seed = seeds?.stringData?.[`${user}.nk`] ?? "";
    expect(keys?.data?.[keyVariable(user)]).toBe(publicKeyOf(seed));
  }
  expect(engine?.stringData?.["key"]).toMatch(/^[0-9a-f]{64}$/);
  expect(authority?.data).toEqual({ "ca.crt": tls?.stringData?.["tls.crt"] });
});

it("keeps what is there, and adds the key of a user that is new", () => {
  const kept = makeNkey();
  const tls = { "tls.crt": "ours", "tls.key": "secret", "ca.crt": "authority" };
  const found = { nkeys: { "watcher.nk": `${kept.seed}\n`, "old.nk": "left alone" }, tls, engine: { key: "kept" } };
  const [seeds, keys, authority, ...more] = planKeys(found, { ...asked, users: ["watcher", "job-controller"] });
  expect(more).toEqual([]);
  expect(seeds?.stringData).toMatchObject({ "watcher.nk": kept.seed, "old.nk": "left alone" });
  expect(keys?.data?.["MUSTER_NATS_KEY_WATCHER"]).toBe(kept.publicKey);
  expect(authority?.data).toEqual({ "ca.crt": "authority" });
  const again = planKeys({ ...found, nkeys: seeds?.stringData }, { ...asked, users: ["watcher", "job-controller"] });
  expect(again.map(({ kind }) => kind)).toEqual(["ConfigMap", "ConfigMap"]);
});

it("gives NATS what its users need when an installation from before the user for backups is upgraded", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-keys-"));
  const file = join(directory.path, "users.conf");
  await writeFile(file, usersConf());
  const { path } = await findNatsServer({ env: process.env });
  const check = async (made: ReturnType<typeof planKeys>): Promise<string> => {
    const keys = made.find(({ name }) => name === "muster-nats-keys")?.data;
    return (await promisify(execFile)(path, ["-t", "-c", file], { env: { ...process.env, ...keys } })).stderr;
  };
  const before = planKeys(NOTHING, { ...asked, users: NATS_USERS.filter((user) => user !== "backup") });
  const contentOf = (secret: string) => before.find(({ name }) => name === secret)?.stringData;
  const found = {
    nkeys: contentOf("muster-nats-nkeys"),
    tls: contentOf("muster-nats-tls"),
    engine: contentOf("muster-provision-engine"),
  };
  await expect(check(before)).rejects.toThrow(/MUSTER_NATS_KEY_BACKUP/);
  const after = planKeys(found, asked);
  expect(await check(after)).toContain("is valid");
  expect(after[0]?.stringData).toMatchObject(found.nkeys ?? {});
});

it("tells of each seed the public key that NATS' own library does, and takes no other text", () => {
  for (let round = 0; round < 50; round += 1) {
    const { publicKey, seed } = makeNkey();
    expect(publicKeyOf(seed)).toBe(publicKey);
  }
  expect(() => publicKeyOf("SUAAAA")).toThrow(/not one of a user/);
});

it("makes a certificate that TLS takes for each of its names, and for no other", async () => {
  const { "tls.crt": cert = "", "tls.key": key = "" } = makeCertificate(["nats", "*.nats-servers.here"], Date.now());
  expect(new X509Certificate(cert)).toMatchObject({ ca: true, subjectAltName: "DNS:nats, DNS:*.nats-servers.here" });
  const server = createServer({ cert, key }, (socket) => socket.end("hello")).listen(0, "127.0.0.1");
  server.on("tlsClientError", () => undefined);
  await once(server, "listening");
  const address = server.address();
  const port = address !== null && typeof address === "object" ? address.port : 0;
  const greeting = async (servername: string): Promise<string> => {
    const socket = connect({ host: "127.0.0.1", port, servername, ca: cert });
    return (await socket.setEncoding("utf8").toArray()).join("");
  };
  try {
    expect(await greeting("nats")).toBe("hello");
    expect(await greeting("nats-1.nats-servers.here")).toBe("hello");
    await expect(greeting("elsewhere")).rejects.toThrow(/does not match/);
  } finally {
    server.close();
  }
});
