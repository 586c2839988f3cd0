import { createPrivateKey, X509Certificate } from "node:crypto";
import { generate } from "selfsigned";

const DAY_MS = 86_400_000;
const AUTHORITY_DAYS = 10 * 365;
const CERTIFICATE_DAYS = 365;
/** An authority outlives every certificate that it has signed. */
const AUTHORITY_LEFT_MS = (CERTIFICATE_DAYS + 1) * DAY_MS;
const CERTIFICATE_LEFT_MS = 30 * DAY_MS;

/** Both in PEM form. */
export type Certificate = { readonly cert: string; readonly key: string };

/** The stored certificates; undefined if missing. */
export type StoredCertificates = {
  readonly authority: Certificate | undefined;
  readonly server: Certificate | undefined;
};

export type CertificateStep = {
  readonly kind: "make-authority" | "make-certificate";
  readonly because: "missing" | "unreadable" | "ends-soon" | "of-another-authority";
};

/** Returns the certificates to create, in this order. Clients that trust the authority also trust a renewed certificate, because the authority stays. */
export function planCertificates({ authority, server }: StoredCertificates, nowMs: number): readonly CertificateStep[] {
  const signer = check(authority, nowMs + AUTHORITY_LEFT_MS);
  const own = check(server, nowMs + CERTIFICATE_LEFT_MS);
  if (typeof signer === "string")
    return [
      { kind: "make-authority", because: signer },
      { kind: "make-certificate", because: typeof own === "string" ? own : "of-another-authority" },
    ];
  if (typeof own === "string") return [{ kind: "make-certificate", because: own }];
  const isSigned = own.checkIssued(signer) && own.verify(signer.publicKey);
  return isSigned ? [] : [{ kind: "make-certificate", because: "of-another-authority" }];
}

/** Returns the certificate when it is valid until then, or the reason why it is not. */
function check(found: Certificate | undefined, untilMs: number): X509Certificate | CertificateStep["because"] {
  if (found === undefined) return "missing";
  try {
    const certificate = new X509Certificate(found.cert);
    // A process that was killed between the two writes leaves the key of one pair and the certificate of another.
    if (!certificate.checkPrivateKey(createPrivateKey(found.key))) return "unreadable";
    return Date.parse(certificate.validTo) > untilMs ? certificate : "ends-soon";
  } catch {
    return "unreadable";
  }
}

const CURVE = { keyType: "ec", curve: "P-256", algorithm: "sha256" } as const;

/** Creates the authority, which signs only the certificate of NATS. */
export async function makeAuthority(nowMs: number): Promise<Certificate> {
  const made = await generate([{ name: "commonName", value: "muster authority" }], {
    ...CURVE,
    notBeforeDate: new Date(nowMs - DAY_MS),
    notAfterDate: new Date(nowMs + AUTHORITY_DAYS * DAY_MS),
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "keyUsage", keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
  return { cert: made.cert, key: made.private };
}

/** Creates the certificate of NATS for the names that containers and this machine use. */
export async function makeCertificate(authority: Certificate, nowMs: number): Promise<Certificate> {
  const made = await generate([{ name: "commonName", value: "nats" }], {
    ...CURVE,
    notBeforeDate: new Date(nowMs - DAY_MS),
    notAfterDate: new Date(nowMs + CERTIFICATE_DAYS * DAY_MS),
    ca: authority,
    extensions: [
      { name: "basicConstraints", cA: false, critical: true },
      { name: "keyUsage", digitalSignature: true, keyEncipherment: true, critical: true },
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
  return { cert: made.cert, key: made.private };
}
