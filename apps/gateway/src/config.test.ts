import { expect, it } from "vitest";
import { readConfig } from "./config.ts";

const ENV = { GATEWAY_TOKEN_FILE: "/tmp/token" };

it("listens on loopback without TLS", () => {
  expect(readConfig(ENV).http).toMatchObject({ host: "127.0.0.1", port: 8480, tls: undefined });
});

it("refuses other hosts without TLS", () => {
  for (const GATEWAY_ADDR of ["0.0.0.0:80", "[::]:80", "gateway:80"])
    expect(() => readConfig({ ...ENV, GATEWAY_ADDR })).toThrow("GATEWAY_TLS_CERT_FILE and GATEWAY_TLS_KEY_FILE");
});

it("serves other hosts with a certificate, or behind a proxy that has one", () => {
  const tls = { GATEWAY_TLS_CERT_FILE: "/tls/tls.crt", GATEWAY_TLS_KEY_FILE: "/tls/tls.key" };
  expect(readConfig({ ...ENV, GATEWAY_ADDR: "[::]:443", ...tls }).http).toMatchObject({
    host: "::",
    port: 443,
    tls: { certFile: "/tls/tls.crt", keyFile: "/tls/tls.key", checkMs: 60_000 },
  });
  expect(readConfig({ ...ENV, GATEWAY_ADDR: "0.0.0.0:80", GATEWAY_PLAIN_HTTP: "true" }).http.host).toBe("0.0.0.0");
});

it("reports every problem in one message", () => {
  const read = () =>
    readConfig({ GATEWAY_ADDR: "here", GATEWAY_BODY_BYTES_MAX: "1", GATEWAY_TLS_CERT_FILE: "/tls/tls.crt" });
  for (const name of ["GATEWAY_ADDR", "GATEWAY_BODY_BYTES_MAX", "GATEWAY_TLS_KEY_FILE", "GATEWAY_TOKEN_FILE"])
    expect(read).toThrow(name);
});

it("requires a local token or a cluster", () => {
  expect(() => readConfig({})).toThrow("GATEWAY_TOKEN_FILE is missing");
  expect(readConfig({ MUSTER_KUBECONFIG: "/kube/config" })).toMatchObject({
    tokenFile: undefined,
    kube: { file: "/kube/config", audience: undefined },
  });
  expect(readConfig({ KUBERNETES_SERVICE_HOST: "10.0.0.1" }).kube).toEqual({ file: undefined, audience: undefined });
});

it("accepts an issuer only with TLS, with an audience, and with a cluster that decides rights", () => {
  const issuer = { GATEWAY_OIDC_ISSUER_URL: "https://issuer.example", GATEWAY_OIDC_CLIENT_ID: "muster" };
  expect(() => readConfig({ ...ENV, ...issuer })).toThrow("MUSTER_KUBECONFIG is missing");
  const env = { ...issuer, MUSTER_KUBECONFIG: "/kube/config" };
  expect(readConfig(env).oidc).toEqual({
    issuer: "https://issuer.example",
    audience: "muster",
    userClaim: "sub",
    groupsClaim: "groups",
    prefix: "oidc:",
    clientSecretFile: undefined,
    scope: "openid profile email",
  });
  expect(() => readConfig({ ...env, GATEWAY_OIDC_SCOPE: "email" })).toThrow("one of them openid");
  expect(() => readConfig({ ...env, GATEWAY_OIDC_CLIENT_ID: "" })).toThrow("GATEWAY_OIDC_CLIENT_ID is missing");
  expect(() => readConfig({ ...env, GATEWAY_OIDC_ISSUER_URL: "http://issuer.example" })).toThrow("https is needed");
  for (const host of ["127.0.0.1", "localhost", "[::1]"])
    expect(readConfig({ ...env, GATEWAY_OIDC_ISSUER_URL: `http://${host}:9000` }).oidc?.issuer).toContain(host);
});

it("trusts the named proxies, and refuses invalid addresses", () => {
  expect(readConfig(ENV).http.trustedProxies).toEqual([]);
  expect(readConfig({ ...ENV, GATEWAY_TRUSTED_PROXIES: "10.1.0.0/16, fd00::1" }).http.trustedProxies).toEqual([
    "10.1.0.0/16",
    "fd00::1",
  ]);
  for (const GATEWAY_TRUSTED_PROXIES of ["ingress", "10.1.0.0/33", "10.1.0.0/16/1", "10.1.0.0,", "fd00::/129"])
    expect(() => readConfig({ ...ENV, GATEWAY_TRUSTED_PROXIES })).toThrow("addresses or CIDR ranges");
});
