import { generate } from "selfsigned";

/** PEM texts. */
export type Certificate = { readonly cert: string; readonly key: string };

const CURVE = { keyType: "ec", curve: "P-256", algorithm: "sha256" } as const;

/** Creates an authority that is valid as long as the server runs. */
export async function makeAuthority(commonName: string): Promise<Certificate> {
  const made = await generate([{ name: "commonName", value: commonName }], {
    ...CURVE,
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "keyUsage", keyCertSign: true, cRLSign: true, digitalSignature: true, critical: true },
    ],
  });
  return { cert: made.cert, key: made.private };
}

/** Signs a certificate for a server on loopback, and for another name if given. */
export async function signLoopbackServer(
  authority: Certificate,
  commonName: string,
  host?: string,
): Promise<Certificate> {
  const made = await generate([{ name: "commonName", value: commonName }], {
    ...CURVE,
    ca: { cert: authority.cert, key: authority.key },
    extensions: [
      { name: "basicConstraints", cA: false, critical: true },
      { name: "keyUsage", digitalSignature: true, keyEncipherment: true, critical: true },
      { name: "extKeyUsage", serverAuth: true },
      {
        name: "subjectAltName",
        altNames: [
          { type: 2, value: "localhost" },
          { type: 7, ip: "127.0.0.1" },
          ...(host === undefined ? [] : [{ type: 2 as const, value: host }]),
        ],
      },
    ],
  });
  return { cert: made.cert, key: made.private };
}
