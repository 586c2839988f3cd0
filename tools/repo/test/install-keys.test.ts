import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, createServer } from "node:tls";
import { promisify } from "node:util";
import { findNatsServer, buildKeyVariable, makeNkey, NATS_USERS } from "@muster/nats-server";
import { makeCertificateAuthority } from "@muster/testkit";
import { expect, it } from "vitest";
import {
  RANDOM_MAKERS,
  makeAuthority,
  makeCertificate,
  planKeys,
  derivePublicKey,
  listSecrets,
  listUsers,
} from "../install-keys.ts";
import { buildUsersConf } from "../nats-users.ts";

const NOTHING = { nkeys: undefined, authority: undefined, tls: undefined, engine: undefined, sessions: undefined };
const KEPT = { engine: { key: "kept" }, sessions: { "session-keys": "kept" } };
const options = { users: listUsers(buildUsersConf()), namespace: "muster-system", nowMs: Date.UTC(2026, 0, 1) };

it("creates a key for each NATS user, a certificate, and the keys of engine and browser sessions, and writes the public parts", () => {
  const made = planKeys(NOTHING, options, RANDOM_MAKERS);
  expect(made.map(({ kind, name, because }) => `${kind} ${name}: ${because}`)).toEqual([
    "Secret muster-nats-authority: missing",
    "Secret muster-nats-tls: missing",
    "ConfigMap muster-nats-ca: public",
    "Secret muster-provision-engine: missing",
    "Secret muster-gateway-session: missing",
    "Secret muster-nats-nkeys: missing",
    "ConfigMap muster-nats-keys: public",
  ]);
  const [authority, tls, trusted, engine, sessions, seeds, keys] = made;
  expect(Object.keys(seeds?.stringData ?? {})).toEqual(NATS_USERS.map((user) => `${user}.nk`));
  for (const user of NATS_USERS) {
    const seed = seeds?.stringData?.[`${user}.nk`] ?? "";
    expect(keys?.data?.[buildKeyVariable(user)]).toBe(derivePublicKey(seed));
  }
  expect(engine?.stringData?.["key"]).toMatch(/^[0-9a-f]{64}$/);
  expect(sessions?.stringData?.["session-keys"]).toMatch(/^[0-9a-f]{64}$/);
  expect(trusted?.data).toEqual({ "ca.crt": authority?.stringData?.["tls.crt"] });
  expect(tls?.stringData?.["ca.crt"]).toBe(authority?.stringData?.["tls.crt"]);
});

it("creates only the keys of engine and browser sessions for an external NATS, and does not overwrite its authority", () => {
  const made = planKeys(NOTHING, { ...options, users: [] }, RANDOM_MAKERS);
  expect(made.map(({ name }) => name)).toEqual(["muster-provision-engine", "muster-gateway-session"]);
  expect(planKeys({ ...NOTHING, ...KEPT }, { ...options, users: [] }, RANDOM_MAKERS)).toEqual([]);
});

it("keeps existing keys, adds the key of a new user, and publishes the key of a removed user", () => {
  const kept = makeNkey();
  const old = makeNkey();
  const tls = { "tls.crt": "ours", "tls.key": "secret", "ca.crt": "authority" };
  const nkeys = { "watcher.nk": `${kept.seed}\n`, "old-user.nk": old.seed, note: "left alone" };
  const found = { ...NOTHING, nkeys, tls, ...KEPT };
  const [trusted, seeds, keys, ...more] = planKeys(
    found,
    { ...options, users: ["watcher", "job-controller"] },
    RANDOM_MAKERS,
  );
  expect(more).toEqual([]);
  expect(seeds?.stringData).toMatchObject(nkeys);
  expect(keys?.data).toMatchObject({
    MUSTER_NATS_KEY_WATCHER: kept.publicKey,
    MUSTER_NATS_KEY_OLD_USER: old.publicKey,
  });
  expect(trusted?.data).toEqual({ "ca.crt": "authority" });
  const repeated = planKeys(
    { ...found, nkeys: seeds?.stringData },
    { ...options, users: ["watcher", "job-controller"] },
    RANDOM_MAKERS,
  );
  expect(repeated.map(({ kind }) => kind)).toEqual(["ConfigMap", "ConfigMap"]);
});

it("treats a certificate without an authority as self-signed, and adds it as ca.crt for the servers", () => {
  const found = { ...NOTHING, tls: { "tls.crt": "ours", "tls.key": "secret" } };
  const [tls, trusted] = planKeys(found, options, RANDOM_MAKERS);
  expect(tls).toMatchObject({ name: "muster-nats-tls", because: "incomplete", stringData: { "ca.crt": "ours" } });
  expect(trusted?.data).toEqual({ "ca.crt": "ours" });
});

it("adds the key of the backup user when an older installation without it is upgraded", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-keys-"));
  const file = join(directory.path, "users.conf");
  await writeFile(file, buildUsersConf());
  const { path } = await findNatsServer({ env: process.env });
  const check = async (made: ReturnType<typeof planKeys>): Promise<string> => {
    const keys = made.find(({ name }) => name === "muster-nats-keys")?.data;
    return (await promisify(execFile)(path, ["-t", "-c", file], { env: { ...process.env, ...keys } })).stderr;
  };
  const before = planKeys(
    NOTHING,
    { ...options, users: NATS_USERS.filter((user) => user !== "backup") },
    RANDOM_MAKERS,
  );
  const contentOf = (secret: string) => before.find(({ name }) => name === secret)?.stringData;
  const found = {
    nkeys: contentOf("muster-nats-nkeys"),
    authority: contentOf("muster-nats-authority"),
    tls: contentOf("muster-nats-tls"),
    engine: contentOf("muster-provision-engine"),
    sessions: contentOf("muster-gateway-session"),
  };
  await expect(check(before)).rejects.toThrow(/MUSTER_NATS_KEY_BACKUP/);
  const after = planKeys(found, options, RANDOM_MAKERS);
  expect(await check(after)).toContain("is valid");
  expect(after.find(({ name }) => name === "muster-nats-nkeys")?.stringData).toMatchObject(found.nkeys ?? {});
});

it("reads exactly the Secrets that the role of the hook names", async () => {
  const chart = join(import.meta.dirname, "../../../deploy/helm/muster/templates/keys.yaml");
  const [, named = ""] = /resourceNames: \[(muster-provision-engine.*)\]/.exec(await readFile(chart, "utf8")) ?? [];
  const listed = (names: string): readonly string[] => names.split(", ").toSorted();
  expect(listSecrets(options.users).toSorted()).toEqual(listed(named.replaceAll(/\{\{.*?\}\}/g, "")));
  expect(listSecrets([]).toSorted()).toEqual(listed(named.replace(/\{\{ if .*\{\{ end \}\}/, "")));
});

it("derives the same public key from a seed as NATS' own library, and refuses other text", () => {
  for (let round = 0; round < 50; round += 1) {
    const { publicKey, seed } = makeNkey();
    expect(derivePublicKey(seed)).toBe(publicKey);
  }
  expect(() => derivePublicKey("SUAAAA")).toThrow(/not one of a user/);
});

it("creates a certificate that TLS accepts for each of its names, and for no other", async () => {
  const nowMs = Date.now();
  const made = makeCertificate(["nats", "*.nats-servers.here"], nowMs, makeAuthority(nowMs));
  const { "tls.crt": cert = "", "ca.crt": authority = "" } = made;
  expect(new X509Certificate(cert)).toMatchObject({ ca: false, subjectAltName: "DNS:nats, DNS:*.nats-servers.here" });
  expect(new X509Certificate(authority)).toMatchObject({ ca: true });
  await using server = await greets(made);
  expect(await server.greeting("nats", authority)).toBe("hello");
  expect(await server.greeting("nats-1.nats-servers.here", authority)).toBe("hello");
  await expect(server.greeting("elsewhere", authority)).rejects.toThrow(/does not match/);
});

it("creates authorities that clients can trust together, while one replaces the other", async () => {
  const nowMs = Date.now();
  const [old, next] = [makeAuthority(nowMs), makeAuthority(nowMs)].map((each) =>
    makeCertificate(["nats"], nowMs, each),
  );
  await using before = await greets(old ?? {});
  await using after = await greets(next ?? {});
  const [first = "", second = ""] = [old?.["ca.crt"], next?.["ca.crt"]];
  for (const both of [first + second, second + first]) {
    expect(await before.greeting("nats", both)).toBe("hello");
    expect(await after.greeting("nats", both)).toBe("hello");
  }
  await expect(after.greeting("nats", first)).rejects.toThrow(/unable to/);
});

it("signs with the exact subject of the authority, also of a foreign one", async () => {
  const theirs = await makeCertificateAuthority("their authority");
  const made = makeCertificate(["nats"], Date.now(), { "tls.crt": theirs.cert, "tls.key": theirs.key });
  expect(new X509Certificate(made["tls.crt"] ?? "").checkIssued(new X509Certificate(theirs.cert))).toBe(true);
  await using server = await greets(made);
  expect(await server.greeting("nats", theirs.cert)).toBe("hello");
});

/** A server with this certificate, and its answer to clients that request a name and trust an authority. */
async function greets({ "tls.crt": cert = "", "tls.key": key = "" }: Readonly<Record<string, string>>) {
  const server = createServer({ cert, key }, (socket) => socket.end("hello")).listen(0, "127.0.0.1");
  server.on("tlsClientError", () => undefined);
  await once(server, "listening");
  const address = server.address();
  const port = address !== null && typeof address === "object" ? address.port : 0;
  return {
    greeting: async (servername: string, ca: string): Promise<string> => {
      const socket = connect({ host: "127.0.0.1", port, servername, ca });
      return (await socket.setEncoding("utf8").toArray()).join("");
    },
    [Symbol.asyncDispose]: async () => {
      server.close();
      await once(server, "close");
    },
  };
}
