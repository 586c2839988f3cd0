import { randomBytes, X509Certificate } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Certificate, makeAuthority } from "./certificates.ts";
import { at, isObject, type JsonValue, getText } from "./json.ts";

/** The certificates by which a server is recognised and recognises others. */
export type Credentials = {
  /** Signs the certificates of the server and of kubelets. */
  readonly authority: Certificate;
  /** The token of the only user. */
  readonly token: string;
  /** The token that the server sends to kubelets. */
  readonly kubeletToken: string;
};

/** An authority with less remaining validity is replaced. */
const REPLACE_BEFORE_MS = 24 * 3_600_000;

export async function makeCredentials(): Promise<Credentials> {
  const secret = (): string => randomBytes(32).toString("hex");
  return { authority: await makeAuthority("muster-devcluster"), token: secret(), kubeletToken: secret() };
}

/** Returns the credentials file of a cluster that persists. */
export function buildCredentialsPath(directory: string): string {
  return join(directory, "state/credentials.json");
}

/** Reads the credentials from the file, mode 0600; creates new ones if the file is missing, or its authority is about to expire. */
export async function keepCredentials(file: string, nowMs: number): Promise<Credentials> {
  const known = await read(file);
  if (known !== undefined && getEndMs(known) - nowMs > REPLACE_BEFORE_MS) return known;
  const made = await makeCredentials();
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.new`;
  await writeFile(draft, JSON.stringify(made), { mode: 0o600, flush: true });
  await rename(draft, file);
  return made;
}

async function read(file: string): Promise<Credentials | undefined> {
  try {
    const text = await readFile(file, "utf8");
    // A machine that lost its power may leave this.
    if (text === "") return undefined;
    const parsed: unknown = JSON.parse(text);
    if (!isObject(parsed)) return undefined;
    const authority = readCertificate(at(parsed, "authority"));
    return { authority, token: getText(parsed, "token"), kubeletToken: getText(parsed, "kubeletToken") };
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

function readCertificate(value: JsonValue | undefined): Certificate {
  return { cert: getText(value, "cert"), key: getText(value, "key") };
}

function getEndMs({ authority }: Credentials): number {
  return Date.parse(new X509Certificate(authority.cert).validTo);
}
