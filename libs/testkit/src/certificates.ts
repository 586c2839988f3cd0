import { generate } from "selfsigned";

/** PEM texts. */
export type Certificate = { readonly cert: string; readonly key: string };

const curve = { keyType: "ec", curve: "P-256", algorithm: "sha256" } as const;

/** A certificate authority that lives as long as a test. */
export async function makeCertificateAuthority(commonName: string): Promise<Certificate> {
  const made = await generate([{ name: "commonName", value: commonName }], {
    ...curve,
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "keyUsage", keyCertSign: true, cRLSign: true, digitalSignature: true, critical: true },
    ],
  });
  return { cert: made.cert, key: made.private };
}

/** A certificate of that authority: for a server on loopback, which may have more names, or for a client known by its name and groups. */
export async function makeSignedCertificate(
  ca: Certificate,
  subject: {
    readonly commonName: string;
    readonly organization?: string;
    readonly use: "server" | "client";
    readonly names?: readonly string[];
  },
): Promise<Certificate> {
  const made = await generate(
    [
      { name: "commonName", value: subject.commonName },
      ...(subject.organization === undefined ? [] : [{ name: "organizationName", value: subject.organization }]),
    ],
    {
      ...curve,
      ca: { cert: ca.cert, key: ca.key },
      extensions: [
        { name: "basicConstraints", cA: false, critical: true },
        { name: "keyUsage", digitalSignature: true, keyEncipherment: true, critical: true },
        { name: "extKeyUsage", serverAuth: subject.use === "server", clientAuth: subject.use === "client" },
        {
          name: "subjectAltName",
          altNames: [
            ...["localhost", ...(subject.names ?? [])].map((value) => ({ type: 2, value }) as const),
            { type: 7, ip: "127.0.0.1" },
          ],
        },
      ],
    },
  );
  return { cert: made.cert, key: made.private };
}
