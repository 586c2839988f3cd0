import { closeSync, fstatSync, openSync, readFileSync } from "node:fs";
import { nkeyAuthenticator, nkeys, type Authenticator } from "@nats-io/nats-core";
import { throwFault } from "@muster/faults";

/** The addresses of the servers, and the credentials for them. */
export type NatsAccess = {
  /** One or more of nats://host:port or tls://host:port, separated by commas. */
  readonly url: string;
  readonly token?: string | undefined;
  /** The seed of a user's nkey. Its file is read at each connection attempt, so that a new key needs no restart. */
  readonly nkey?: { readonly seed: string } | { readonly file: string } | undefined;
  readonly tls?: NatsTls | undefined;
};

/** PEM files. If one is set, nothing is sent before the connection is encrypted. */
type NatsTls = {
  /** Certificate authority of the servers; default: the authorities that Node trusts. */
  readonly caFile?: string | undefined;
  /** The certificate of this client, for servers that require one. */
  readonly client?: { readonly certFile: string; readonly keyFile: string } | undefined;
};

/** The reader that `readEnv` of `@muster/service` passes. */
type VariableReader = {
  readonly optional: (name: string) => string | undefined;
  readonly url: (name: string, fallback: string) => string;
};

/** Permission bits of group and others. */
const OTHERS = 0o077;

/** Reads the variables that all services share. Throws FaultError invalid_request where they do not go together; never with a secret in it. */
export function readNatsAccess(read: VariableReader): NatsAccess & { readonly token: string | undefined } {
  /** The seed itself, instead of its file. */
  const seed = read.optional("MUSTER_NATS_NKEY");
  /** File with the seed of the nkey of its NATS user, readable only by its owner. */
  const file = read.optional("MUSTER_NATS_NKEY_FILE");
  /** Token of a server without users, instead of an nkey. */
  const token = read.optional("MUSTER_NATS_TOKEN");
  if ([seed, file, token].filter((each) => each !== undefined).length > 1)
    refuse("MUSTER_NATS_NKEY", "only one of MUSTER_NATS_NKEY, MUSTER_NATS_NKEY_FILE and MUSTER_NATS_TOKEN can be used");
  if (seed !== undefined) derivePublicKey(seed, "MUSTER_NATS_NKEY");
  const nkey = seed === undefined ? (file === undefined ? undefined : { file }) : { seed };
  /** NATS server; several separated by commas. */
  const url = read.url("MUSTER_NATS_URL", "nats://127.0.0.1:4222");
  return { url, token, ...(nkey && { nkey }), ...readTls(read) };
}

function readTls(read: VariableReader): { readonly tls?: NatsTls } {
  /** Certificate authority of the NATS server, in PEM form. Without it, the authorities that Node trusts. */
  const caFile = read.optional("MUSTER_NATS_CA_FILE");
  /** Client certificate, if the server requires one; together with `MUSTER_NATS_KEY_FILE`. */
  const certFile = read.optional("MUSTER_NATS_CERT_FILE");
  /** Key of the client certificate. */
  const keyFile = read.optional("MUSTER_NATS_KEY_FILE");
  if (certFile === undefined && keyFile === undefined) return caFile === undefined ? {} : { tls: { caFile } };
  if (certFile === undefined || keyFile === undefined)
    return refuse("MUSTER_NATS_CERT_FILE", "it and MUSTER_NATS_KEY_FILE are needed together");
  return { tls: { caFile, client: { certFile, keyFile } } };
}

/** The credential for a server, and a text for people that names its owner. */
export type Credential = {
  /** Names the user or the variable, never the secret. */
  readonly name: string;
  readonly authenticator: Authenticator | undefined;
};

/** Opens the credential. Throws FaultError invalid_request if the file cannot be read, is readable by others, or holds no seed. */
export function openCredential({ token, nkey }: Pick<NatsAccess, "token" | "nkey">): Credential {
  if (nkey === undefined)
    return {
      name:
        token === undefined ? "a client without credential (MUSTER_NATS_NKEY_FILE is not set)" : "MUSTER_NATS_TOKEN",
      authenticator: undefined,
    };
  if ("seed" in nkey) {
    const user = derivePublicKey(nkey.seed, "MUSTER_NATS_NKEY");
    return {
      name: `the nkey ${user} of MUSTER_NATS_NKEY`,
      authenticator: nkeyAuthenticator(new TextEncoder().encode(nkey.seed)),
    };
  }
  const { file } = nkey;
  let seed = readSeed(file);
  return {
    name: `the nkey ${derivePublicKey(seed, FILE)} of ${FILE} ${file}`,
    authenticator: nkeyAuthenticator(() => {
      try {
        seed = readSeed(file);
      } catch {
        // The file is being written: this attempt uses the previous seed.
      }
      return new TextEncoder().encode(seed);
    }),
  };
}

const FILE = "MUSTER_NATS_NKEY_FILE";

function readSeed(path: string): string {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    return refuse(FILE, error instanceof Error ? error.message : path);
  }
  try {
    const mode = fstatSync(file).mode & 0o777;
    if ((mode & OTHERS) !== 0)
      refuse(
        FILE,
        `${path}: others may use it, its mode is ${mode.toString(8).padStart(4, "0")}: chmod 0600 is needed`,
      );
    const seed = readFileSync(file, "utf8").trim();
    derivePublicKey(seed, `${FILE} ${path}`);
    return seed;
  } finally {
    closeSync(file);
  }
}

function derivePublicKey(seed: string, from: string): string {
  try {
    return nkeys.fromSeed(new TextEncoder().encode(seed)).getPublicKey();
  } catch {
    return refuse(from, "it is not the seed of an nkey, which begins with SU");
  }
}

function refuse(field: string, reason: string): never {
  return throwFault({ code: "invalid_request", field, reason });
}
