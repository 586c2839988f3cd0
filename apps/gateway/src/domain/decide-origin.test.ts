import fc from "fast-check";
import { expect, it } from "vitest";
import { decideOrigin, decideSessionRequest } from "./decide-origin.ts";

const HERE = { method: "POST", host: "muster.example:8480", origin: undefined, fetchSite: undefined };

it.each([
  ["of a program, which has no origin", {}, "allowed"],
  ["of a page of this host", { origin: "http://muster.example:8480", fetchSite: "same-origin" }, "allowed"],
  ["of a page that has TLS by a proxy", { origin: "https://muster.example:8480" }, "allowed"],
  ["of a page at the port of its scheme", { host: "muster.example", origin: "https://muster.example" }, "allowed"],
  ["with the port of the scheme in Host", { host: "muster.example:443", origin: "https://muster.example" }, "allowed"],
  ["of a page of another host", { origin: "http://evil.example" }, "refused"],
  ["of a page of another port", { origin: "http://muster.example:1" }, "refused"],
  ["of a page of a host that ends alike", { origin: "http://evil-muster.example:8480" }, "refused"],
  ["of a page without an origin", { origin: "null" }, "refused"],
  ["with an origin that is no URL", { origin: "muster.example:8480" }, "refused"],
  ["of another host of the same site", { fetchSite: "same-site" }, "refused"],
  ["of another site", { fetchSite: "cross-site" }, "refused"],
  ["of another site that only reads", { method: "GET", origin: "http://evil.example" }, "allowed"],
] as const)("decides about a request %s", (_what, given, kind) => {
  expect(decideOrigin({ ...HERE, ...given }).kind).toBe(kind);
});

it.each([
  ["POST", "right", "allowed"],
  ["POST", "wrong", "refused"],
  ["DELETE", undefined, "refused"],
  ["PUT", "", "refused"],
  ["GET", undefined, "allowed"],
])("with the cookie of a session, %s with the token %s is %s", (method, csrfToken, kind) => {
  expect(decideSessionRequest({ ...HERE, method, csrfToken }, "right").kind).toBe(kind);
});

it("allows no change from another origin, whatever its token", () => {
  fc.assert(
    fc.property(fc.domain(), fc.constantFrom("POST", "PUT", "PATCH", "DELETE"), (domain, method) => {
      const origin = `https://${domain}`;
      expect(decideSessionRequest({ ...HERE, method, origin, csrfToken: "right" }, "right").kind).toBe("refused");
    }),
  );
});
