/**
 * What docker-compose.yml needs before anything starts, made once and kept in its volumes: a key for each user of NATS, the configuration of the server that
 * knows them, its certificate, and a key for the results of leases. Each service is given its own key and no other; the command line finds its own in a folder of
 * the clone. Runs as root, to give each file to whoever reads it.
 */
import { randomBytes, X509Certificate } from "node:crypto";
import { chmod, chown, copyFile, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeNkey, NATS_USERS, renderUsers } from "@muster/nats-server";
import { readEnv } from "@muster/service";
import { generate } from "selfsigned";

/** The user that all images run as. */
const NODE = { uid: 1000, gid: 1000 };
type Owner = typeof NODE;
/** The one place where everything is kept; what stands elsewhere is a copy. */
const KEPT = "/setup/kept";
const FOR_NATS = "/setup/nats";
const CLIENT = "/setup/client";
const CERTIFICATE_DAYS = 365;
const RENEW_BEFORE_MS = 30 * 86_400_000;

const config = readEnv(process.env, (read) => ({
  natsPort: read.integer("SETUP_NATS_PORT", { fallback: 4222, min: 1, max: 65_535 }),
  kubeconfig: read.optional("SETUP_KUBECONFIG"),
}));

await mkdir(join(KEPT, "nkeys"), { recursive: true, mode: 0o700 });
await keepCertificate();
const keys = new Map<string, string>();
for (const user of NATS_USERS) keys.set(user, await keepNkey(user));
await keep(join(KEPT, "provision-engine.key"), () => randomBytes(32).toString("hex"));

const [tls, ca] = [join(KEPT, "tls.key"), join(KEPT, "tls.crt")];
await give(tls, join(FOR_NATS, "tls.key"), NODE);
await give(ca, join(FOR_NATS, "tls.crt"), NODE);
await put(
  join(FOR_NATS, "users.conf"),
  renderUsers((user) => keys.get(user) ?? ""),
  NODE,
);

for (const user of NATS_USERS) {
  const directory = join("/setup/keys", user);
  if (!(await isThere(directory))) continue;
  await give(join(KEPT, "nkeys", user), join(directory, "nats.nk"), NODE);
  await give(ca, join(directory, "ca.crt"), NODE);
}
await give(join(KEPT, "provision-engine.key"), "/setup/keys/provision-engine/engine.key", NODE);
for (const directory of ["/setup/data", "/setup/cluster", "/setup/access"]) await chown(directory, NODE.uid, NODE.gid);
if (config.kubeconfig !== undefined) await give(config.kubeconfig, "/setup/access/kubeconfig", NODE);

// Whoever has cloned the repository, not whoever runs the engine.
const { uid, gid } = await stat("/setup/compose.yml");
const local = { natsUrl: `tls://localhost:${config.natsPort}`, natsNkeyFile: "cli.nk", natsCaFile: "ca.crt" };
await chown(CLIENT, uid, gid);
await give(join(KEPT, "nkeys/cli"), join(CLIENT, "cli.nk"), { uid, gid });
await give(ca, join(CLIENT, "ca.crt"), { uid, gid });
await put(join(CLIENT, "local.json"), `${JSON.stringify(local)}\n`, { uid, gid });

/** The public key of the user, whose seed is made at the first time. */
async function keepNkey(user: string): Promise<string> {
  const file = join(KEPT, "nkeys", user);
  const made = makeNkey();
  // First, so that no seed is ever without it.
  if (!(await isThere(file))) await writeFile(`${file}.pub`, made.publicKey);
  await keep(file, () => made.seed);
  return (await readFile(`${file}.pub`, "utf8")).trim();
}

async function keep(file: string, content: () => string): Promise<void> {
  if (!(await isThere(file))) await writeFile(file, `${content()}\n`, { mode: 0o600 });
}

async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}

/** It signs itself, so that clients take it for the authority, too. */
async function keepCertificate(): Promise<void> {
  const [certFile, keyFile] = [join(KEPT, "tls.crt"), join(KEPT, "tls.key")];
  const found = await readFile(certFile, "utf8").catch(() => undefined);
  const endsMs = found === undefined ? 0 : Date.parse(new X509Certificate(found).validTo);
  if (endsMs - Date.now() > RENEW_BEFORE_MS) return;
  const notAfterDate = new Date(Date.now() + CERTIFICATE_DAYS * 86_400_000);
  const made = await generate([{ name: "commonName", value: "nats" }], {
    keyType: "ec",
    curve: "P-256",
    algorithm: "sha256",
    notAfterDate,
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "keyUsage", keyCertSign: true, digitalSignature: true, keyEncipherment: true, critical: true },
      { name: "extKeyUsage", serverAuth: true },
      {
        name: "subjectAltName",
        altNames: [
          { type: 2, value: "nats" },
          { type: 2, value: "localhost" },
          { type: 7, ip: "127.0.0.1" },
        ],
      },
    ],
  });
  await writeFile(keyFile, made.private, { mode: 0o600 });
  await writeFile(certFile, made.cert);
}

/** A copy that its owner alone can read. */
async function give(from: string, to: string, owner: Owner): Promise<void> {
  await copyFile(from, to);
  await own(to, owner);
}

async function put(file: string, content: string, owner: Owner): Promise<void> {
  await writeFile(file, content);
  await own(file, owner);
}

async function own(file: string, { uid, gid }: Owner): Promise<void> {
  await chmod(file, 0o600);
  await chown(file, uid, gid);
}
