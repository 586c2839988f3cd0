import { randomBytes } from "node:crypto";
import { chown, mkdir, readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { prepareAccess } from "@muster/devcluster/access";
import { makeNkey, NATS_USERS, type NatsUserName, getPublicKey, renderUsers } from "@muster/nats-server";
import {
  type Certificate,
  type CertificateStep,
  type StoredCertificates,
  makeAuthority,
  makeCertificate,
  planCertificates,
} from "./certificates.ts";
import { keepFile, type Owner, putFile, readText } from "./files.ts";

const SUFFIX = ".kubeconfig";

export type Setup = {
  /** Has a folder for each volume of the container. */
  readonly root: string;
  /** User of all other containers. */
  readonly service: Owner;
  /** Port of NATS on this machine, for the command line. */
  readonly natsPort: number;
  /** Port of the embedded cluster on this machine, for kubectl. */
  readonly kubernetesPort: number;
  /** Folder with a `<service>.kubeconfig` for each service that uses the user's cluster; default: the embedded cluster. */
  readonly kubeconfigs?: string | undefined;
  readonly nowMs: number;
};

/** Creates missing files, and copies to each service its own. A killed run can be repeated. Returns the certificates that it made. */
export async function prepare(setup: Setup): Promise<readonly CertificateStep[]> {
  const { root, service } = setup;
  // The originals are here; all other files are copies.
  const kept = join(root, "kept");
  await mkdir(join(kept, "nkeys"), { recursive: true, mode: 0o700 });
  const { authority, server, steps } = await keepCertificates(kept, setup.nowMs);
  const nkeys = new Map<string, Nkey>();
  for (const user of NATS_USERS) nkeys.set(user, await keepNkey(join(kept, "nkeys", user)));
  const engineKey = await keepFile(join(kept, "provision-engine.key"), () => randomBytes(32).toString("hex"));
  const apiToken = await keepFile(join(kept, "gateway.token"), () => randomBytes(32).toString("base64url"));
  const sessionKeys = await keepFile(join(kept, "gateway.session-keys"), () => randomBytes(32).toString("base64url"));

  const forNats = join(root, "nats");
  await putFile(join(forNats, "tls.key"), server.key, service);
  await putFile(join(forNats, "tls.crt"), server.cert, service);
  const users = renderUsers((user) => nkeys.get(user)?.publicKey ?? "");
  await putFile(join(forNats, "users.conf"), users, service);

  for (const [user, { seed }] of nkeys) {
    const directory = join(root, "keys", user);
    // The other users are not containers.
    if (!(await exists(directory))) continue;
    await putFile(join(directory, "nats.nk"), `${seed}\n`, service);
    await putFile(join(directory, "ca.crt"), authority.cert, service);
  }
  await putFile(join(root, "keys/provision-engine/engine.key"), `${engineKey}\n`, service);
  await putFile(join(root, "keys/gateway/token"), `${apiToken}\n`, service);
  await putFile(join(root, "keys/gateway/session-keys"), `${sessionKeys}\n`, service);
  for (const name of ["data", "cluster", "access"]) await chown(join(root, name), service.uid, service.gid);
  if (setup.kubeconfigs !== undefined) await copyKubeconfigs(setup, setup.kubeconfigs);
  const seedOf = (user: NatsUserName): string => nkeys.get(user)?.seed ?? "";
  await prepareKubectl(setup);
  await prepareClient(setup, { cli: seedOf("cli"), backup: seedOf("backup"), apiToken }, authority.cert);
  return steps;
}

/** Copies to each service its own kubeconfig only: no service gets the rights of another. */
async function copyKubeconfigs({ root, service }: Setup, from: string): Promise<void> {
  const names = (await readdir(from).catch((): string[] => [])).filter((name) => name.endsWith(SUFFIX));
  if (names.length === 0)
    throw new Error(`${from} has no <service>${SUFFIX}; \`npm run compose-cluster -- KUBECONFIG\` writes them`);
  for (const name of names) {
    const directory = join(root, "keys", name.slice(0, -SUFFIX.length));
    if (await exists(directory))
      await putFile(join(directory, "kubeconfig"), await readFile(join(from, name)), service);
  }
}

/** Writes a kubeconfig for the owner of the clone. Only this container may write into the folder with the keys of the command line. */
async function prepareKubectl({ root, service, kubernetesPort, kubeconfigs, nowMs }: Setup): Promise<void> {
  const file = join(root, "client/kubeconfig");
  // The user's cluster has its own kubeconfig, and the embedded cluster does not run.
  if (kubeconfigs !== undefined) {
    await rm(file, { force: true });
    return;
  }
  const access = await prepareAccess(join(root, "cluster"), `https://127.0.0.1:${kubernetesPort}`, nowMs);
  for (const kept of access.files) await chown(kept, service.uid, service.gid);
  await putFile(file, access.kubeconfig, await findClient(root));
}

/** The user who owns the clone. */
async function findClient(root: string): Promise<Owner> {
  const { uid, gid } = await stat(join(root, "compose.yml"));
  return { uid, gid };
}

/** Seeds of the NATS users of the command line, and the token of the HTTP API. */
type ClientSecrets = { readonly cli: string; readonly backup: string; readonly apiToken: string };

/** Fills the folder of the command line. It belongs to the owner of the clone, not to the user of the container engine. */
async function prepareClient({ root, natsPort }: Setup, secrets: ClientSecrets, ca: string): Promise<void> {
  const client = join(root, "client");
  const { uid, gid } = await findClient(root);
  const local = {
    natsUrl: `tls://localhost:${natsPort}`,
    natsNkeyFile: "cli.nk",
    natsBackupNkeyFile: "backup.nk",
    natsCaFile: "ca.crt",
  };
  await chown(client, uid, gid);
  await putFile(join(client, "cli.nk"), `${secrets.cli}\n`, { uid, gid });
  await putFile(join(client, "backup.nk"), `${secrets.backup}\n`, { uid, gid });
  await putFile(join(client, "gateway.token"), `${secrets.apiToken}\n`, { uid, gid });
  await putFile(join(client, "ca.crt"), ca, { uid, gid });
  await putFile(join(client, "local.json"), `${JSON.stringify(local)}\n`, { uid, gid });
}

type Nkey = { readonly seed: string; readonly publicKey: string };

async function keepNkey(file: string): Promise<Nkey> {
  const seed = await keepFile(file, () => makeNkey().seed);
  try {
    return { seed, publicKey: getPublicKey(seed) };
  } catch (cause) {
    throw new Error(`${file} holds no seed of an nkey: remove the file to create a new one`, { cause });
  }
}

type Certificates = {
  readonly authority: Certificate;
  readonly server: Certificate;
  readonly steps: readonly CertificateStep[];
};

async function keepCertificates(kept: string, nowMs: number): Promise<Certificates> {
  const found: StoredCertificates = { authority: await readPair(kept, "ca"), server: await readPair(kept, "tls") };
  const steps = planCertificates(found, nowMs);
  let { authority, server } = found;
  for (const step of steps) {
    if (step.kind === "make-authority") {
      authority = await makeAuthority(nowMs);
      await putPair(kept, "ca", authority);
    } else if (authority !== undefined) {
      server = await makeCertificate(authority, nowMs);
      await putPair(kept, "tls", server);
    }
  }
  if (authority === undefined || server === undefined) throw new Error("the plan omits a missing certificate");
  return { authority, server, steps };
}

async function readPair(kept: string, name: string): Promise<Certificate | undefined> {
  const [cert, key] = [await readText(join(kept, `${name}.crt`)), await readText(join(kept, `${name}.key`))];
  return cert === undefined || key === undefined ? undefined : { cert, key };
}

async function putPair(kept: string, name: string, { cert, key }: Certificate): Promise<void> {
  await putFile(join(kept, `${name}.key`), key);
  await putFile(join(kept, `${name}.crt`), cert);
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}
