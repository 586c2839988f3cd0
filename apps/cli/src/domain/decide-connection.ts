/** The address of the bus, how it was found, and advice for a server that does not answer. */
export type Connection = {
  readonly natsUrl: string;
  readonly credential: Credential;
  readonly because: "option --nats-url" | "MUSTER_NATS_URL" | "local stack" | "default";
  readonly hint: string;
  /** The remedy where the server, or its certificate, is refused with the present keys. */
  readonly keysHint: string;
};

/** The NATS users of the command. */
export type NatsUser = "cli" | "backup";

/** The values of the MUSTER_NATS_... variables, or a file with a token. */
export type Credential =
  { readonly variables: Readonly<Record<string, string | undefined>> } | { readonly tokenFile: string };

/** The file that `npm start -- --keep` or `docker compose up` leaves for the CLI: a key of its own or, where the server was named, its token. */
export type LocalStack = {
  readonly natsUrl: string;
  readonly natsNkeyFile: string;
  /** The key file of the user that may only copy and restore; empty if that user does not exist. */
  readonly natsBackupNkeyFile: string;
  readonly natsTokenFile: string;
  /** The certificate authority of the server; empty if it has no certificate. */
  readonly natsCaFile: string;
  /** The folder with these files, if containers run the stack. Only a connection shows whether they run. */
  readonly containers: string | undefined;
  readonly alive: boolean;
};

const DEFAULT_NATS_URL = "nats://127.0.0.1:4222";

const START =
  "start a local stack (`npm start -- --keep` in a clone, or `docker compose up --wait`); outside a clone, name its local.json in MUSTER_LOCAL_FILE; or name a server in MUSTER_NATS_URL";

/** Advises how to write the files of the local stack again. */
export const REWRITE_HINT =
  "`docker compose up setup` writes those of containers again, and `npm start -- --keep` its own";

/**
 * Chooses the server: that of the command line, then of the environment, then the local stack, then the default port of NATS. The credential of the environment
 * applies to a server of the command line or the environment; the local stack has a credential for each user.
 */
export function decideConnection(known: {
  readonly user: NatsUser;
  readonly option: string | undefined;
  readonly env: {
    readonly natsUrl: string | undefined;
    readonly variables: Readonly<Record<string, string | undefined>>;
  };
  /** Read only if neither the command line nor the environment names a server. */
  readonly local: () => LocalStack | undefined;
}): Connection {
  const { option, env } = known;
  const credential = { variables: env.variables };
  const check =
    "check that a NATS server runs there, that it knows MUSTER_NATS_NKEY_FILE or MUSTER_NATS_TOKEN, and that MUSTER_NATS_CA_FILE signed its certificate";
  const named = { credential, hint: check, keysHint: check };
  if (option !== undefined) return { ...named, natsUrl: option, because: "option --nats-url" };
  if (env.natsUrl !== undefined && env.natsUrl !== "")
    return { ...named, natsUrl: env.natsUrl, because: "MUSTER_NATS_URL" };
  const local = known.local();
  if (local?.alive === true) {
    return {
      natsUrl: local.natsUrl,
      credential: credentialOf(local, known.user),
      because: "local stack",
      hint:
        local.containers === undefined
          ? "see its logs in .muster/logs"
          : `\`docker compose up --wait\` starts it, \`docker compose logs\` shows its errors; if it is gone for good, with its volumes, remove ${local.containers}`,
      keysHint: `the keys of the local stack are not, or no longer, those of its server: ${REWRITE_HINT}`,
    };
  }
  const gone = local === undefined ? "" : "the local stack that was here has ended; ";
  return {
    natsUrl: DEFAULT_NATS_URL,
    credential,
    because: "default",
    hint: gone + START,
    keysHint: `${check}; ${START}`,
  };
}

function credentialOf(local: LocalStack, user: NatsUser): Credential {
  const { natsNkeyFile, natsBackupNkeyFile, natsTokenFile, natsCaFile } = local;
  if (natsNkeyFile !== "") {
    const authority = natsCaFile === "" ? {} : { MUSTER_NATS_CA_FILE: natsCaFile };
    const file = user === "backup" && natsBackupNkeyFile !== "" ? natsBackupNkeyFile : natsNkeyFile;
    return { variables: { MUSTER_NATS_NKEY_FILE: file, ...authority } };
  }
  return natsTokenFile === "" ? { variables: {} } : { tokenFile: natsTokenFile };
}

/** Describes the server and how it was found, without a password in the URL. */
export function describeConnection({ natsUrl, because }: Pick<Connection, "natsUrl" | "because">): string {
  const addresses = natsUrl
    .split(",")
    .map((each) => each.trim().replace(/\/\/[^/@]*@|^[^/@]*@/, (found) => (found.startsWith("//") ? "//" : "")));
  return `${addresses.join(",")} (${because})`;
}
