import { X509Certificate } from "node:crypto";
import { beforeAll, describe, expect, it } from "vitest";
import {
  type Certificate,
  type StoredCertificates,
  makeAuthority,
  makeCertificate,
  planCertificates,
} from "./certificates.ts";

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2026, 0, 1);

describe("planCertificates", () => {
  let authority: Certificate;
  let another: Certificate;
  let server: Certificate;
  beforeAll(async () => {
    [authority, another] = [await makeAuthority(NOW), await makeAuthority(NOW)];
    server = await makeCertificate(authority, NOW);
  });
  const planned = (found: Partial<StoredCertificates>, days = 0): string[] =>
    planCertificates({ authority, server, ...found }, NOW + days * DAY_MS).map(
      (step) => `${step.kind}: ${step.because}`,
    );

  it("creates both the first time, and none while both are valid", () => {
    expect(planned({ authority: undefined, server: undefined })).toEqual([
      "make-authority: missing",
      "make-certificate: missing",
    ]);
    expect(planned({})).toEqual([]);
    expect(planned({}, 334)).toEqual([]);
  });

  it("renews a certificate in its last 30 days, signed by the existing authority", () => {
    expect(planned({}, 336)).toEqual(["make-certificate: ends-soon"]);
    expect(planned({}, 1000)).toEqual(["make-certificate: ends-soon"]);
  });

  it("renews an authority while it outlives the certificates that it signs", async () => {
    const days = 10 * 365 - 366 + 1;
    const late = await makeCertificate(authority, NOW + (days - 10) * DAY_MS);
    expect(planned({ server: late }, days - 2)).toEqual([]);
    expect(planned({ server: late }, days)).toEqual([
      "make-authority: ends-soon",
      "make-certificate: of-another-authority",
    ]);
  });

  it.each<[string, () => Partial<StoredCertificates>, string[]]>([
    ["a self-signed certificate", () => ({ server: another }), ["make-certificate: of-another-authority"]],
    ["a certificate of another authority", () => ({ authority: another }), ["make-certificate: of-another-authority"]],
    [
      "the key of another certificate",
      () => ({ server: { ...server, key: another.key } }),
      ["make-certificate: unreadable"],
    ],
    [
      "a truncated certificate",
      () => ({ server: { ...server, cert: server.cert.slice(0, 99) } }),
      ["make-certificate: unreadable"],
    ],
    [
      "an authority without content",
      () => ({ authority: { cert: "", key: "" } }),
      ["make-authority: unreadable", "make-certificate: of-another-authority"],
    ],
    [
      "a missing authority",
      () => ({ authority: undefined }),
      ["make-authority: missing", "make-certificate: of-another-authority"],
    ],
  ])("does not continue with %s", (_, found, expected) => {
    expect(planned(found())).toEqual(expected);
  });

  it("creates a certificate for the names of NATS that is valid immediately and never outlives its authority", () => {
    const made = new X509Certificate(server.cert);
    expect(made.subjectAltName).toBe("DNS:nats, DNS:localhost, IP Address:127.0.0.1");
    expect(made.ca).toBe(false);
    expect(Date.parse(made.validFrom)).toBeLessThan(NOW);
    expect(Date.parse(made.validTo)).toBeLessThan(Date.parse(new X509Certificate(authority.cert).validTo));
  });
});
