import { randomBytes } from "node:crypto";
import { chown, mkdir, readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { prepareAccess } from "@muster/devcluster/access";
import { makeNkey, NATS_USERS, type NatsUserName, publicKeyOf, renderUsers } from "@muster/nats-server";
import {
  type Certificate,
  type CertificateStep,
  type Kept,
  makeAuthority,
  makeCertificate,
  planCertificates,
} from "./certificates.ts";
import { keep, type Owner, put, readText } from "./files.ts";

const ENDING = ".kubeconfig";

export type Setup = {
  /** Holds a folder for each volume of the container. */
  readonly root: string;
  /** The user that all other containers run as. */
  readonly service: Owner;
  /** Where the command line finds NATS on this machine. */
  readonly natsPort: number;
  /** Where kubectl finds the embedded cluster on this machine. */
  readonly kubernetesPort: number;
  /** Folder with a `<service>.kubeconfig` for each that has to do with a cluster of the user's, which is used instead. */
  readonly kubeconfigs?: string | undefined;
  readonly nowMs: number;
};

/** Makes what is missing, and gives each its own; may be killed anywhere and run again. Returns what was made of certificates. */
export async function prepare(setup: Setup): Promise<readonly CertificateStep[]> {
  const { root, service } = setup;
  // The one place where everything is kept; what stands elsewhere is a copy.
  const kept = join(root, "kept");
  await mkdir(join(kept, "nkeys"), { recursive: true, mode: 0o700 });
  const { authority, server, steps } = await keepCertificates(kept, setup.nowMs);
  const nkeys = new Map<string, Nkey>();
  for (const user of NATS_USERS) nkeys.set(user, await keepNkey(join(kept, "nkeys", user)));
  const engineKey = await keep(join(kept, "provision-engine.key"), () => randomBytes(32).toString("hex"));

  const forNats = join(root, "nats");
  await put(join(forNats, "tls.key"), server.key, service);
  await put(join(forNats, "tls.crt"), server.cert, service);
  const users = renderUsers((user) => nkeys.get(user)?.publicKey ?? "");
  await put(join(forNats, "users.conf"), users, service);

  for (const [user, { seed }] of nkeys) {
    const directory = join(root, "keys", user);
    // The others are no containers.
    if (!(await isThere(directory))) continue;
    await put(join(directory, "nats.nk"), `${seed}\n`, service);
    await put(join(directory, "ca.crt"), authority.cert, service);
  }
  await put(join(root, "keys/provision-engine/engine.key"), `${engineKey}\n`, service);
  for (const name of ["data", "cluster", "access"]) await chown(join(root, name), service.uid, service.gid);
  if (setup.kubeconfigs !== undefined) await giveAccess(setup, setup.kubeconfigs);
  const seedOf = (user: NatsUserName): string => nkeys.get(user)?.seed ?? "";
  await prepareKubectl(setup);
  await prepareClient(setup, { cli: seedOf("cli"), backup: seedOf("backup") }, authority.cert);
  return steps;
}

/** To each service its own: what one of them may do in the cluster is nobody else's. */
async function giveAccess({ root, service }: Setup, from: string): Promise<void> {
  const names = (await readdir(from).catch((): string[] => [])).filter((name) => name.endsWith(ENDING));
  if (names.length === 0)
    throw new Error(`${from} has no <service>${ENDING}: npm run compose-cluster -- KUBECONFIG writes them`);
  for (const name of names) {
    const directory = join(root, "keys", name.slice(0, -ENDING.length));
    if (await isThere(directory)) await put(join(directory, "kubeconfig"), await readFile(join(from, name)), service);
  }
}

/** A kubeconfig for whoever owns the clone. Made here, for no other container may write where the keys of the command line are. */
async function prepareKubectl({ root, service, kubernetesPort, kubeconfigs, nowMs }: Setup): Promise<void> {
  const file = join(root, "client/kubeconfig");
  // They have one, and this would be of a cluster that does not run.
  if (kubeconfigs !== undefined) {
    await rm(file, { force: true });
    return;
  }
  const access = await prepareAccess(join(root, "cluster"), `https://127.0.0.1:${kubernetesPort}`, nowMs);
  for (const kept of access.files) await chown(kept, service.uid, service.gid);
  await put(file, access.kubeconfig, await clientOf(root));
}

/** Whoever has cloned the repository. */
async function clientOf(root: string): Promise<Owner> {
  const { uid, gid } = await stat(join(root, "compose.yml"));
  return { uid, gid };
}

/** Of the users that somebody at the command line is. */
type ClientSeeds = { readonly cli: string; readonly backup: string };

/** The folder of the command line belongs to whoever has cloned the repository, not to whoever runs the engine. */
async function prepareClient({ root, natsPort }: Setup, seeds: ClientSeeds, ca: string): Promise<void> {
  const client = join(root, "client");
  const { uid, gid } = await clientOf(root);
  const local = {
    natsUrl: `tls://localhost:${natsPort}`,
    natsNkeyFile: "cli.nk",
    natsBackupNkeyFile: "backup.nk",
    natsCaFile: "ca.crt",
  };
  await chown(client, uid, gid);
  await put(join(client, "cli.nk"), `${seeds.cli}\n`, { uid, gid });
  await put(join(client, "backup.nk"), `${seeds.backup}\n`, { uid, gid });
  await put(join(client, "ca.crt"), ca, { uid, gid });
  await put(join(client, "local.json"), `${JSON.stringify(local)}\n`, { uid, gid });
}

type Nkey = { readonly seed: string; readonly publicKey: string };

async function keepNkey(file: string): Promise<Nkey> {
  const seed = await keep(file, () => makeNkey().seed);
  try {
    return { seed, publicKey: publicKeyOf(seed) };
  } catch (cause) {
    throw new Error(`${file} holds no seed of an nkey: without the file a new one is made`, { cause });
  }
}

type Certificates = {
  readonly authority: Certificate;
  readonly server: Certificate;
  readonly steps: readonly CertificateStep[];
};

async function keepCertificates(kept: string, nowMs: number): Promise<Certificates> {
  const found: Kept = { authority: await readPair(kept, "ca"), server: await readPair(kept, "tls") };
  const steps = planCertificates(found, nowMs);
  let { authority, server } = found;
  for (const step of steps) {
    if (step.do === "make-authority") {
      authority = await makeAuthority(nowMs);
      await putPair(kept, "ca", authority);
    } else if (authority !== undefined) {
      server = await makeCertificate(authority, nowMs);
      await putPair(kept, "tls", server);
    }
  }
  if (authority === undefined || server === undefined) throw new Error("what is missing was not planned");
  return { authority, server, steps };
}

async function readPair(kept: string, name: string): Promise<Certificate | undefined> {
  const [cert, key] = [await readText(join(kept, `${name}.crt`)), await readText(join(kept, `${name}.key`))];
  return cert === undefined || key === undefined ? undefined : { cert, key };
}

async function putPair(kept: string, name: string, { cert, key }: Certificate): Promise<void> {
  await put(join(kept, `${name}.key`), key);
  await put(join(kept, `${name}.crt`), cert);
}

async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}
