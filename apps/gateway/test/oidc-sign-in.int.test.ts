import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startApiServer, type ApiServer } from "@muster/devcluster";
import { makeKubeCalls, loadKube, type KubeObject } from "@muster/kube";
import { until } from "@muster/testkit";
import { request } from "undici";
import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import {
  openBrowser,
  startGatewayWorld,
  type Answered,
  type Browser,
  type Gateway,
  type GatewayWorld,
} from "./gateway-world.ts";
import { startTestIssuer, type TestIssuer } from "./test-issuer.ts";

let issuer: TestIssuer;
let cluster: ApiServer;
let world: GatewayWorld;
let gateway: Gateway;

beforeAll(async () => {
  issuer = await startTestIssuer();
  world = await startGatewayWorld({ listPools: () => ({ pools: [] }) });
  cluster = await startApiServer({ directory: join(world.directory, "cluster") });
  await letWatchPools("oidc:ada");
  gateway = await world.start(variables());
});

afterAll(async () => {
  await cluster[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  await issuer[Symbol.asyncDispose]();
});

beforeEach(() => {
  issuer.signsIn = {};
  issuer.secret = undefined;
  issuer.redirectUris = [`${gateway.url}/auth/oidc/callback`];
});

const variables = () => ({
  MUSTER_KUBECONFIG: cluster.kubeconfig,
  GATEWAY_OIDC_ISSUER_URL: issuer.url,
  GATEWAY_OIDC_CLIENT_ID: "muster",
});

async function letWatchPools(user: string): Promise<void> {
  await using calls = makeKubeCalls(loadKube(cluster.kubeconfig));
  const apiVersion = "rbac.authorization.k8s.io/v1";
  const metadata = { name: "watcher-of-pools" };
  const rules = [{ apiGroups: ["muster.dev"], resources: ["pools"], verbs: ["list", "watch"] }];
  const role = { apiVersion, kind: "ClusterRole", metadata, rules } as KubeObject;
  await calls.create({ apiVersion, plural: "clusterroles" }, role);
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", ...metadata };
  const subjects = [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: user }];
  const binding = { apiVersion, kind: "ClusterRoleBinding", metadata, roleRef, subjects } as KubeObject;
  await calls.create({ apiVersion, plural: "clusterrolebindings" }, binding);
}

/** Signs in at the issuer; returns the path to which the gateway returns the browser. */
async function agree(browser: Browser, start = "/auth/oidc/start"): Promise<string> {
  const { status, headers } = await browser.ask(start);
  expect(status).toBe(302);
  const back = await request(String(headers["location"]));
  await back.body.dump();
  expect(back.statusCode).toBe(302);
  const { pathname, search } = new URL(String(back.headers["location"]));
  return `${pathname}${search}`;
}

async function signIn(browser: Browser, start?: string): Promise<Answered> {
  return browser.ask(await agree(browser, start));
}

it("signs a browser in at the issuer, and returns to the page of its start", async () => {
  const browser = openBrowser(gateway);
  expect((await browser.ask("/auth/methods")).json).toEqual({ token: true, oidc: true });
  const { status, headers } = await signIn(browser, "/auth/oidc/start?return=%2Fqueues%2Fa%3Fsort%3Dname");
  expect([status, headers["location"]]).toEqual([302, "/queues/a?sort=name"]);
  expect([...browser.cookies.keys()]).toEqual(["muster-session"]);
  expect((await browser.ask("/auth/session")).json).toMatchObject({ user: "oidc:ada" });
  expect((await browser.ask("/v1/pools")).status).toBe(200);
  expect((await browser.ask("/v1/nodes")).json).toMatchObject({ status: 403, code: "FORBIDDEN" });
});

it("stores the state of the sign-in in a separate cookie, which a page cannot read", async () => {
  const browser = openBrowser(gateway);
  const { headers } = await browser.ask("/auth/oidc/start");
  const asked = new URL(String(headers["location"])).searchParams;
  expect(asked.get("code_challenge_method")).toBe("S256");
  expect(asked.get("scope")).toBe("openid profile email");
  expect(browser.lastCookies[0]).toMatch(/^muster-sign-in=[\w.-]+; Path=\/; .*HttpOnly; SameSite=Lax$/);
  expect(browser.lastCookies[0]).not.toContain(asked.get("state"));
});

it("returns only to a path of this host", async () => {
  const { headers } = await signIn(openBrowser(gateway), "/auth/oidc/start?return=https%3A%2F%2Fevil.example%2F");
  expect(headers["location"]).toBe("/");
});

it("refuses a code of another browser, and a repeated code", async () => {
  const [victim, attacker] = [openBrowser(gateway), openBrowser(gateway)];
  const stolen = await agree(attacker);
  expect((await victim.ask(stolen)).json).toMatchObject({ status: 401, code: "UNAUTHENTICATED" });
  await victim.ask("/auth/oidc/start");
  expect((await victim.ask(stolen)).json).toMatchObject({ status: 401 });
  expect(victim.cookies.has("muster-session")).toBe(false);
  const flow = attacker.cookies.get("muster-sign-in")!;
  expect((await attacker.ask(stolen)).status).toBe(302);
  attacker.cookies.set("muster-sign-in", flow);
  expect((await attacker.ask(stolen)).status).toBe(401);
});

it("does not accept the cookie of a sign-in as a session", async () => {
  const browser = openBrowser(gateway);
  await browser.ask("/auth/oidc/start");
  browser.cookies.set("muster-session", browser.cookies.get("muster-sign-in")!);
  expect((await browser.ask("/auth/session")).status).toBe(401);
});

it.each([
  ["the user declines", { error: "access_denied" }, "access_denied"],
  ["the token is for another client", { audience: "other" }, ": aud"],
  ["the token has another nonce", { claims: { nonce: "other" } }, ": nonce"],
  ["the token is of another issuer", { by: "https://issuer.example" }, ": iss"],
])("begins no session if %s", async (_what, signsIn, reason) => {
  issuer.signsIn = signsIn;
  const browser = openBrowser(gateway);
  const { json } = await signIn(browser);
  expect(json).toMatchObject({ status: 401, code: "UNAUTHENTICATED" });
  expect(JSON.stringify(json)).toContain(reason);
  expect(browser.cookies.size).toBe(0);
});

it("sends the secret of the client to the issuer", async () => {
  const file = join(world.directory, "client-secret");
  await writeFile(file, "from-the-issuer\n");
  const confidential = await world.start({ ...variables(), GATEWAY_OIDC_CLIENT_SECRET_FILE: file });
  issuer.redirectUris = [gateway, confidential].map(({ url }) => `${url}/auth/oidc/callback`);
  issuer.secret = "from-the-issuer";
  expect((await signIn(openBrowser(gateway))).json).toMatchObject({ status: 401 });
  expect((await signIn(openBrowser(confidential))).status).toBe(302);
  expect(confidential.logged.join("\n")).not.toContain("from-the-issuer");
});

it("ends a session and its watches when its token expires", async () => {
  const quick = await world.start({ ...variables(), GATEWAY_STREAM_CHECK_MS: "100" });
  const expires = Math.ceil(Date.now() / 1000) + 300;
  const token = await issuer.tokenOf(issuer.keys[0]!, { expires });
  const browser = openBrowser(quick);
  const { json } = await browser.ask("/auth/session", { method: "POST", body: { token } });
  expect(json).toMatchObject({ user: "oidc:ada", expiresAtMs: expires * 1000 });
  const cookie = `muster-session=${browser.cookies.get("muster-session")!}`;
  await using byCookie = await quick.stream("/v1/pools?watch=true", { cookie });
  await using byHeader = await quick.stream("/v1/pools?watch=true", { authorization: `Bearer ${token}` });
  expect([byCookie.status, byHeader.status]).toEqual([200, 200]);
  // Clocks may differ by 30 s.
  vi.useFakeTimers({ toFake: ["Date"], now: (expires + 31) * 1000 });
  try {
    await until("both streams are over", () => byCookie.over() !== undefined && byHeader.over() !== undefined);
  } finally {
    vi.useRealTimers();
  }
  for (const stream of [byCookie, byHeader])
    expect(stream.events().at(-1)).toMatchObject({ event: "closed", data: { code: "UNAUTHENTICATED" } });
});

it("refuses a token that does not fit into a cookie, and states the reason", async () => {
  const groups = Array.from({ length: 500 }, (_, index) => `group-${index}`);
  const token = await issuer.tokenOf(issuer.keys[0]!, { claims: { groups } });
  const browser = openBrowser(gateway);
  const { json } = await browser.ask("/auth/session", { method: "POST", body: { token } });
  expect(json).toMatchObject({ status: 400, field: "token" });
  expect(JSON.stringify(json)).toContain("fewer groups");
});

it("answers 503 while the issuer is unavailable, and recovers", async () => {
  const fresh = await world.start(variables());
  issuer.redirectUris = [`${fresh.url}/auth/oidc/callback`];
  await issuer.stop();
  const browser = openBrowser(fresh);
  expect((await browser.ask("/auth/oidc/start")).json).toMatchObject({ status: 503, code: "UNAVAILABLE" });
  await issuer.start();
  await until("the issuer answers again", async () => (await signIn(browser)).status === 302);
});
