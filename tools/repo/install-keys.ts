/**
 * Creates the keys of an installation inside its cluster: `node install-keys.ts [USERS_CONF]`, run by a Job of the Helm chart with its own ServiceAccount.
 *
 * Creates missing Secrets: the key of the provision-engine, the key of browser sessions and, with a file of users, the seeds of the NATS users and the
 * certificate of NATS with its authority. Writes the public parts into ConfigMaps. Existing secrets are never changed, and none is logged. Imports only Node,
 * because the Job mounts only this file.
 */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from "node:crypto";
import { readFile } from "node:fs/promises";

const DAY_MS = 86_400_000;
/** Ten years, because the certificate is not renewed automatically. */
const CERTIFICATE_DAYS = 3650;
/** Outlives every certificate that it signs in its first twenty years. */
const AUTHORITY_DAYS = 3 * CERTIFICATE_DAYS;

type Files = Readonly<Record<string, string>>;

/** Contents of a Secret by key, as text; undefined where the Secret is missing. */
type Contents = Files | undefined;

export type Found = {
  readonly nkeys: Contents;
  readonly authority: Contents;
  readonly tls: Contents;
  readonly engine: Contents;
  readonly sessions: Contents;
};

const SECRETS = {
  nkeys: "muster-nats-nkeys",
  authority: "muster-nats-authority",
  tls: "muster-nats-tls",
  engine: "muster-provision-engine",
  sessions: "muster-gateway-session",
} as const satisfies Record<keyof Found, string>;

/** Names of the Secrets that a plan for these users reads; the role of the hook allows only these. */
export function listSecrets(users: readonly string[]): readonly string[] {
  return users.length > 0 ? Object.values(SECRETS) : [SECRETS.engine, SECRETS.sessions];
}

export type PlannedObject = {
  readonly kind: "Secret" | "ConfigMap";
  readonly name: string;
  readonly because: "missing" | "incomplete" | "public";
  /** The entries that an incomplete Secret lacks. */
  readonly missingEntries?: readonly string[];
  readonly type?: string;
  readonly stringData?: Readonly<Record<string, string>>;
  readonly data?: Readonly<Record<string, string>>;
};

type PlanOptions = { readonly users: readonly string[]; readonly namespace: string; readonly nowMs: number };

/** Generators of secrets. */
export type Makers = {
  /** The seed of a user's nkey. */
  readonly seed: () => string;
  /** 32 random bytes, in hexadecimal. */
  readonly key: () => string;
  readonly authority: (nowMs: number) => Files;
  readonly certificate: (names: readonly string[], nowMs: number, authority: Files) => Files;
};

/**
 * Plans the objects to write, in this order. `users`: the users of users.conf; empty for an external NATS. `namespace`: the namespace in the names of NATS. A
 * partly executed plan can be repeated: existing secrets stay.
 */
export function planKeys(found: Found, options: PlanOptions, make: Makers): readonly PlannedObject[] {
  const ofNats = options.users.length > 0;
  return [
    ...(ofNats ? planAuthority(found, options, make) : []),
    ...planKey(SECRETS.engine, "key", found.engine, make),
    ...planKey(SECRETS.sessions, "session-keys", found.sessions, make),
    ...(ofNats ? planUsers(found, options, make) : []),
  ];
}

function planKey(name: string, entry: string, found: Contents, make: Makers): readonly PlannedObject[] {
  if (found?.[entry] !== undefined) return [];
  return [{ kind: "Secret", name, ...lacking(found, [entry]), stringData: { ...found, [entry]: make.key() } }];
}

function lacking(
  found: Contents,
  missingEntries: readonly string[],
): Pick<PlannedObject, "because" | "missingEntries"> {
  return found === undefined ? { because: "missing" } : { because: "incomplete", missingEntries };
}

/** Plans the seeds and their public keys. Keys of removed users stay, because an older configuration names them after a rollback. */
function planUsers({ nkeys }: Found, { users }: PlanOptions, make: Makers): readonly PlannedObject[] {
  const wanted: PlannedObject[] = [];
  const made = users
    .filter((user) => nkeys?.[`${user}.nk`] === undefined)
    .map((user) => [`${user}.nk`, make.seed()] as const);
  const all: Readonly<Record<string, string>> = { ...nkeys, ...Object.fromEntries(made) };
  if (made.length > 0) {
    const files = made.map(([file]) => file);
    wanted.push({ kind: "Secret", name: SECRETS.nkeys, ...lacking(nkeys, files), stringData: all });
  }
  const keys = Object.entries(all)
    .filter(([file]) => file.endsWith(".nk"))
    .map(([file, seed]) => [keyVariable(file.slice(0, -".nk".length)), derivePublicKey(seed.trim())]);
  const data = Object.fromEntries(keys) as Record<string, string>;
  return [...wanted, { kind: "ConfigMap", name: "muster-nats-keys", because: "public", data }];
}

/** Plans the certificate and its authority. The authority stays, so that clients and NATS servers trust an old and a new certificate during a rollout. */
function planAuthority(found: Found, { namespace, nowMs }: PlanOptions, make: Makers): readonly PlannedObject[] {
  const wanted: PlannedObject[] = [];
  let tls = found.tls;
  const type = "kubernetes.io/tls";
  if (tls === undefined) {
    const authority = found.authority ?? make.authority(nowMs);
    if (found.authority === undefined)
      wanted.push({ kind: "Secret", name: SECRETS.authority, because: "missing", type, stringData: authority });
    tls = make.certificate(natsNames(namespace), nowMs, authority);
    wanted.push({ kind: "Secret", name: SECRETS.tls, because: "missing", type, stringData: tls });
  } else if (tls["ca.crt"] === undefined) {
    // A self-signed certificate.
    tls = { ...tls, "ca.crt": tls["tls.crt"] ?? "" };
    wanted.push({ kind: "Secret", name: SECRETS.tls, ...lacking(found.tls, ["ca.crt"]), type, stringData: tls });
  }
  const data = { "ca.crt": tls["ca.crt"] ?? "" };
  return [...wanted, { kind: "ConfigMap", name: "muster-nats-ca", because: "public", data }];
}

/** The users of a users.conf, from the names of their variables. */
export function listUsers(conf: string): readonly string[] {
  return [...conf.matchAll(/nkey: \$MUSTER_NATS_KEY_(\w+)/g)].map(([, name = ""]) =>
    name.toLowerCase().replaceAll("_", "-"),
  );
}

function keyVariable(user: string): string {
  return `MUSTER_NATS_KEY_${user.toUpperCase().replaceAll("-", "_")}`;
}

/** The names of the Service, its servers, and a port-forward. */
function natsNames(namespace: string): readonly string[] {
  const inside = ["nats", "*.nats-servers"];
  const ends = ["", `.${namespace}`, `.${namespace}.svc`, `.${namespace}.svc.cluster.local`];
  return [...inside.flatMap((name) => ends.map((end) => name + end)), "localhost"];
}

/** An nkey has prefix bytes with its type, the bytes of the key, and a checksum of both. */
const SEED_OF_USER = Buffer.from([149, 0]);
const PUBLIC_OF_USER = Buffer.from([160]);
const PKCS8_OF_ED25519 = Buffer.from("302e020100300506032b657004220420", "hex");
const KEY_BYTES = 32;

/** Generates all secrets with the random source of the machine. */
export const RANDOM_MAKERS: Makers = {
  seed: () => encodeNkey(SEED_OF_USER, randomBytes(KEY_BYTES)),
  key: () => randomBytes(KEY_BYTES).toString("hex"),
  authority: makeAuthority,
  certificate: makeCertificate,
};

/** The public key of a seed. Throws where it is not the seed of a user. */
export function derivePublicKey(seed: string): string {
  const bytes = base32Bytes(seed);
  const key = bytes.subarray(SEED_OF_USER.length, SEED_OF_USER.length + KEY_BYTES);
  if (key.length < KEY_BYTES || encodeNkey(SEED_OF_USER, key) !== seed) throw new Error("a seed is not one of a user");
  const secret = createPrivateKey({ key: Buffer.concat([PKCS8_OF_ED25519, key]), format: "der", type: "pkcs8" });
  const spki = createPublicKey(secret).export({ format: "der", type: "spki" });
  return encodeNkey(PUBLIC_OF_USER, spki.subarray(-KEY_BYTES));
}

function encodeNkey(head: Buffer, key: Buffer): string {
  const body = Buffer.concat([head, key]);
  const sum = Buffer.alloc(2);
  sum.writeUInt16LE(crc16(body));
  return base32(Buffer.concat([body, sum]));
}

/** CRC-16/XMODEM. */
function crc16(bytes: Buffer): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  }
  return crc;
}

const BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

function base32(bytes: Buffer): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{1,5}/g) ?? []).map((five) => BASE32[parseInt(five.padEnd(5, "0"), 2)]).join("");
}

function base32Bytes(text: string): Buffer {
  const bits = [...text].map((letter) => BASE32.indexOf(letter).toString(2).padStart(5, "0")).join("");
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((eight) => parseInt(eight, 2)));
}

/** Creates an authority, as the files of a Secret of type kubernetes.io/tls. Its key signs only certificates of NATS. */
export function makeAuthority(nowMs: number): Readonly<Record<string, string>> {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const days = AUTHORITY_DAYS;
  // The name is unique: of two authorities with one name TLS only tries the first, so clients that trust both would fail.
  const sum = createHash("sha256").update(publicKey.export({ format: "der", type: "spki" }));
  const subject = encodeName(`nats authority ${sum.digest("hex").slice(0, 16)}`);
  const by = { issuer: subject, signer: privateKey };
  const der = signedDer({ subject, extensions: [IS_AUTHORITY], days, nowMs, publicKey, ...by });
  return { "tls.crt": formatPem(der), "tls.key": privateKey.export({ format: "pem", type: "pkcs8" }).toString() };
}

/** Creates a certificate for these names, signed by the authority, which is added as `ca.crt`. */
export function makeCertificate(
  names: readonly string[],
  nowMs: number,
  authority: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const by = {
    issuer: readSubject(new X509Certificate(authority["tls.crt"] ?? "").raw),
    signer: createPrivateKey(authority["tls.key"] ?? ""),
  };
  const alternatives = names.map((each) => der(0x82, Buffer.from(each)));
  const named = der(SEQUENCE, ALTERNATIVE_NAMES, der(OCTET_STRING, der(SEQUENCE, ...alternatives)));
  const days = CERTIFICATE_DAYS;
  return {
    "tls.crt": formatPem(
      signedDer({ subject: encodeName("nats"), extensions: [named], days, nowMs, publicKey, ...by }),
    ),
    "tls.key": privateKey.export({ format: "pem", type: "pkcs8" }).toString(),
    "ca.crt": authority["tls.crt"] ?? "",
  };
}

function formatPem(der: Buffer): string {
  const body = der.toString("base64").replaceAll(/.{64}/g, "$&\n").trimEnd();
  return `-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----\n`;
}

/** Tags of ASN.1. */
const SEQUENCE = 0x30;
const SET = 0x31;
const INTEGER = 0x02;
const BIT_STRING = 0x03;
const OCTET_STRING = 0x04;
const UTF8 = 0x0c;
const TIME = 0x18;
const VERSION = 0xa0;
const TRUE = Buffer.from("0101ff", "hex");
const ECDSA_WITH_SHA256 = Buffer.from("300a06082a8648ce3d040302", "hex");
const COMMON_NAME = Buffer.from("0603550403", "hex");
const BASIC_CONSTRAINTS = Buffer.from("0603551d13", "hex");
const ALTERNATIVE_NAMES = Buffer.from("0603551d11", "hex");

const IS_AUTHORITY = der(SEQUENCE, BASIC_CONSTRAINTS, TRUE, der(OCTET_STRING, der(SEQUENCE, TRUE)));

function signedDer(options: {
  /** Names, encoded for the certificate. */
  readonly subject: Buffer;
  readonly issuer: Buffer;
  readonly extensions: readonly Buffer[];
  readonly days: number;
  readonly nowMs: number;
  readonly publicKey: KeyObject;
  readonly signer: KeyObject;
}): Buffer {
  // The leading byte keeps it positive.
  const serial = Buffer.concat([Buffer.from([1]), randomBytes(15)]);
  const content = der(
    SEQUENCE,
    der(VERSION, der(INTEGER, Buffer.from([2]))),
    der(INTEGER, serial),
    ECDSA_WITH_SHA256,
    options.issuer,
    der(SEQUENCE, time(options.nowMs - DAY_MS), time(options.nowMs + options.days * DAY_MS)),
    options.subject,
    options.publicKey.export({ format: "der", type: "spki" }),
    der(0xa3, der(SEQUENCE, ...options.extensions)),
  );
  const signature = sign("sha256", content, options.signer);
  return der(SEQUENCE, content, ECDSA_WITH_SHA256, der(BIT_STRING, Buffer.from([0]), signature));
}

function encodeName(text: string): Buffer {
  return der(SEQUENCE, der(SET, der(SEQUENCE, COMMON_NAME, der(UTF8, Buffer.from(text)))));
}

/** The subject of the certificate, byte for byte, because another authority may encode it differently. */
function readSubject(certificate: Buffer): Buffer {
  const [content = Buffer.alloc(0)] = splitParts(certificate);
  // The version is optional. Then follow the serial, the algorithm, the issuer, the validity, and the subject.
  const parts = splitParts(content).filter((part) => part[0] !== VERSION);
  const subject = parts[4];
  if (subject === undefined) throw new Error("the certificate of the authority has no subject");
  return subject;
}

/** The parts of a sequence, each with its tag and length. */
function splitParts(whole: Buffer): readonly Buffer[] {
  const parts: Buffer[] = [];
  for (let at = readExtent(whole, 0).from; at < whole.length; at = readExtent(whole, at).to)
    parts.push(whole.subarray(at, readExtent(whole, at).to));
  return parts;
}

/** Start and end of the content of the part at this position. The length has one byte, or the number of bytes that the first one states. */
function readExtent(bytes: Buffer, at: number): { readonly from: number; readonly to: number } {
  const first = bytes.readUInt8(at + 1);
  const size = first < 0x80 ? 0 : first & 0x7f;
  const length = size === 0 ? first : bytes.readUIntBE(at + 2, size);
  const from = at + 2 + size;
  return { from, to: from + length };
}

function time(ms: number): Buffer {
  const text = new Date(ms).toISOString().replaceAll(/[-:T]|\.\d+/g, "");
  return der(TIME, Buffer.from(text));
}

function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const head = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
}

/** Reasons in the log of the job. */
const REASONS: Readonly<Record<PlannedObject["because"], string>> = {
  missing: "it was missing",
  incomplete: "existing entries are kept; added",
  public: "the public parts of the Secrets",
};

const ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

async function main(usersFile: string | undefined): Promise<void> {
  const users = usersFile === undefined ? [] : listUsers(await readFile(usersFile, "utf8"));
  const namespace = await readFile(`${ACCOUNT}/namespace`, "utf8");
  const token = await readFile(`${ACCOUNT}/token`, "utf8");
  const call = async (method: string, path: string, body?: object): Promise<unknown> => {
    const answer = await fetch(`https://kubernetes.default.svc/api/v1/namespaces/${namespace}/${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/apply-patch+yaml" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    });
    if (answer.status === 404) return undefined;
    // Omits the body, because a refusal may repeat the sent secrets.
    if (!answer.ok) throw new Error(`${method} ${path}: the API server answered ${answer.status}`);
    return await answer.json();
  };
  const secret = async (name: string): Promise<Contents> => {
    const found = (await call("GET", `secrets/${name}`)) as { data?: Record<string, string> } | undefined;
    if (found === undefined) return undefined;
    const texts = Object.entries(found.data ?? {}).map(([key, value]) => [
      key,
      Buffer.from(value, "base64").toString(),
    ]);
    return Object.fromEntries(texts) as Record<string, string>;
  };
  const read = listSecrets(users);
  const contents = async (name: string): Promise<Contents> => (read.includes(name) ? secret(name) : undefined);
  const found = {
    nkeys: await contents(SECRETS.nkeys),
    authority: await contents(SECRETS.authority),
    tls: await contents(SECRETS.tls),
    engine: await contents(SECRETS.engine),
    sessions: await contents(SECRETS.sessions),
  };
  for (const planned of planKeys(found, { users, namespace, nowMs: Date.now() }, RANDOM_MAKERS)) {
    const { name, kind, because, missingEntries = [], ...content } = planned;
    const metadata = { name, labels: { "app.kubernetes.io/part-of": "muster" } };
    const path = `${kind.toLowerCase()}s/${name}?fieldManager=muster-keys&force=true`;
    await call("PATCH", path, { apiVersion: "v1", kind, metadata, ...content });
    process.stdout.write(`wrote ${kind} ${name}: ${[REASONS[because], ...missingEntries].join(" ")}\n`);
  }
}

if (import.meta.main) await main(process.argv[2]);
