import { createPrivateKey, X509Certificate } from "node:crypto";
import { generate } from "selfsigned";

const DAY_MS = 86_400_000;
const AUTHORITY_DAYS = 10 * 365;
const CERTIFICATE_DAYS = 365;
/** An authority ends after every certificate that it has signed. */
const AUTHORITY_LEFT_MS = (CERTIFICATE_DAYS + 1) * DAY_MS;
const CERTIFICATE_LEFT_MS = 30 * DAY_MS;

/** Texts in PEM form. */
export type Certificate = { readonly cert: string; readonly key: string };

/** What is kept; undefined: it was never made. */
export type Kept = { readonly authority: Certificate | undefined; readonly server: Certificate | undefined };

export type CertificateStep = {
  readonly do: "make-authority" | "make-certificate";
  readonly because: "missing" | "unreadable" | "ends-soon" | "of-another-authority";
};

/** What has to be made anew, in this order. A certificate that is renewed is trusted by whoever trusts the authority, which stays. */
export function planCertificates({ authority, server }: Kept, nowMs: number): readonly CertificateStep[] {
  const signer = look(authority, nowMs + AUTHORITY_LEFT_MS);
  const own = look(server, nowMs + CERTIFICATE_LEFT_MS);
  if (typeof signer === "string")
    return [
      { do: "make-authority", because: signer },
      { do: "make-certificate", because: typeof own === "string" ? own : "of-another-authority" },
    ];
  if (typeof own === "string") return [{ do: "make-certificate", because: own }];
  const isIts = own.checkIssued(signer) && own.verify(signer.publicKey);
  return isIts ? [] : [{ do: "make-certificate", because: "of-another-authority" }];
}

/** What is wrong with it; or itself, when it is good until then. */
function look(found: Certificate | undefined, untilMs: number): X509Certificate | CertificateStep["because"] {
  if (found === undefined) return "missing";
  try {
    const certificate = new X509Certificate(found.cert);
    // Whoever was killed between the two has left those of two pairs.
    if (!certificate.checkPrivateKey(createPrivateKey(found.key))) return "unreadable";
    return Date.parse(certificate.validTo) > untilMs ? certificate : "ends-soon";
  } catch {
    return "unreadable";
  }
}

const CURVE = { keyType: "ec", curve: "P-256", algorithm: "sha256" } as const;

/** Signs the certificate of NATS, and nothing else. */
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

/** For NATS, under the names that containers and this machine know it by. */
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
