import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { NatsAccess } from "@muster/bus";
import {
  findNatsServer,
  makeNkey,
  NATS_USERS,
  type NatsServer,
  type NatsUserName,
  startNatsServer,
} from "@muster/nats-server";
import { subjects } from "@muster/proto";

export type NatsVariables = Readonly<Record<string, string | undefined>>;

/** The NATS server of a stack, and the credentials of its users. */
export type StackNats = {
  readonly url: string;
  /** Access for programs other than the services, with the rights of the command line. */
  readonly access: NatsAccess & { readonly inboxPrefix: string };
  readonly variablesOf: (user: NatsUserName) => NatsVariables;
  /** Files with the credentials of the command line; empty where the server needs none. */
  readonly files: {
    readonly natsNkeyFile: string;
    readonly natsBackupNkeyFile: string;
    readonly natsTokenFile: string;
  };
};

/** External servers: all users share a token, or each has its own key. */
export type NamedNats = {
  readonly url: string;
  readonly token?: string | undefined;
  /** A user for each service, over TLS. */
  readonly secured?: { readonly caFile: string; readonly nkeyFileOf: (user: NatsUserName) => string } | undefined;
};

export type NatsOptions = {
  readonly directory: string;
  readonly nats?: NamedNats;
  readonly baseEnv: NatsVariables;
  readonly signal: AbortSignal;
  readonly onProgress: (line: string) => void;
};

/** Credentials from the environment belong to another server, and must not be sent to this one. */
const UNSET = Object.fromEntries(
  ["NKEY", "NKEY_FILE", "TOKEN", "CA_FILE", "CERT_FILE", "KEY_FILE"].map((name) => [`MUSTER_NATS_${name}`, undefined]),
);

/** Uses the named server, or starts a server with a user for each service. */
export async function prepareNats(
  options: NatsOptions,
  starting: AsyncDisposableStack,
  onBroken: (reason: string) => void,
): Promise<StackNats> {
  const { directory, nats, onProgress } = options;
  const inboxPrefix = subjects.inbox("cli");
  if (nats !== undefined) {
    onProgress(`using the nats-server at ${nats.url}`);
    const { url, token, secured } = nats;
    if (secured !== undefined) return securedNats(url, secured);
    const natsTokenFile = join(directory, "nats.token");
    await writeFile(natsTokenFile, token ?? "", { mode: 0o600 });
    return {
      url,
      access: { url, token, inboxPrefix },
      variablesOf: () => ({ ...UNSET, MUSTER_NATS_URL: url, MUSTER_NATS_TOKEN: token }),
      files: { natsNkeyFile: "", natsBackupNkeyFile: "", natsTokenFile },
    };
  }
  const keys = await writeKeys(directory);
  const log = join(directory, "nats/nats-server.log");
  const server = await startNats(options, keys, (how) => {
    onBroken(`nats-server ended (${how}). Its log is ${log}`);
  });
  starting.use(server);
  const { url } = server;
  const fileOf = (user: NatsUserName): string => keyFile(directory, user);
  return {
    url,
    access: { url, nkey: { file: fileOf("cli") }, inboxPrefix },
    variablesOf: (user) => ({ ...UNSET, MUSTER_NATS_URL: url, MUSTER_NATS_NKEY_FILE: fileOf(user) }),
    files: { natsNkeyFile: fileOf("cli"), natsBackupNkeyFile: fileOf("backup"), natsTokenFile: "" },
  };
}

function securedNats(url: string, { caFile, nkeyFileOf }: NonNullable<NamedNats["secured"]>): StackNats {
  return {
    url,
    access: { url, nkey: { file: nkeyFileOf("cli") }, tls: { caFile }, inboxPrefix: subjects.inbox("cli") },
    variablesOf: (user) => ({
      ...UNSET,
      MUSTER_NATS_URL: url,
      MUSTER_NATS_NKEY_FILE: nkeyFileOf(user),
      MUSTER_NATS_CA_FILE: caFile,
    }),
    files: { natsNkeyFile: nkeyFileOf("cli"), natsBackupNkeyFile: nkeyFileOf("backup"), natsTokenFile: "" },
  };
}

function keyFile(directory: string, user: NatsUserName): string {
  return join(directory, "nkeys", `${user}.nk`);
}

/** Writes a new seed for each user into a file that only the current user can read. Returns the public keys. */
async function writeKeys(directory: string): Promise<ReadonlyMap<NatsUserName, string>> {
  await mkdir(join(directory, "nkeys"), { recursive: true, mode: 0o700 });
  const keys = new Map<NatsUserName, string>();
  for (const user of NATS_USERS) {
    const { publicKey, seed } = makeNkey();
    await writeFile(keyFile(directory, user), `${seed}\n`, { mode: 0o600 });
    keys.set(user, publicKey);
  }
  return keys;
}

async function startNats(
  { directory, baseEnv: env, onProgress, signal }: NatsOptions,
  keys: ReadonlyMap<NatsUserName, string>,
  onExit: (how: string) => void,
): Promise<NatsServer> {
  const found = await findNatsServer({ env, onProgress, signal });
  const server = await startNatsServer({
    binary: found.path,
    directory: join(directory, "nats"),
    port: 0,
    token: randomBytes(24).toString("hex"),
    users: (user) => keys.get(user) ?? "",
    onExit: (code, killedBy) => {
      onExit(killedBy ?? `exit code ${code ?? "unknown"}`);
    },
  });
  onProgress(`nats-server ${found.version} (${found.from}) listens at ${server.url}`);
  return server;
}
