import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { until } from "@muster/testkit";
import Provider from "oidc-provider";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startSessionWorld, type SessionWorld } from "./session-world.ts";

let world: SessionWorld;
let server: Server;
/** Answers access reviews in place of the API server. */
let rights: Server;
let issuer: string;
let folder: string;
let config: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "muster-login-"));
  config = join(folder, "config.yaml");
  server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "muster",
        token_endpoint_auth_method: "none",
        grant_types: ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"],
        redirect_uris: [],
        response_types: [],
      },
    ],
    features: { deviceFlow: { enabled: true } },
    cookies: { keys: ["test"] },
    issueRefreshToken: () => Promise.resolve(true),
    // The token expires so early that every command must renew it; the gateway tolerates a clock skew of 30 s.
    ttl: { IdToken: 5 },
  });
  const answer = provider.callback();
  server.on("request", (request, response) => void answer(request, response));
  rights = createServer((request, response) => void review(request, response)).listen(0, "127.0.0.1");
  await once(rights, "listening");
  const kubeconfig = join(folder, "kubeconfig");
  const cluster = {
    server: `http://127.0.0.1:${(rights.address() as AddressInfo).port}`,
    // The issuer serves plain HTTP.
    "insecure-skip-tls-verify": true,
  };
  const context = { cluster: "c", user: "u" };
  const content = {
    "current-context": "c",
    clusters: [{ name: "c", cluster }],
    users: [{ name: "u", user: {} }],
    contexts: [{ name: "c", context }],
  };
  await writeFile(kubeconfig, JSON.stringify(content));
  world = await startSessionWorld("gateway", {
    MUSTER_KUBECONFIG: kubeconfig,
    GATEWAY_OIDC_ISSUER_URL: issuer,
    GATEWAY_OIDC_CLIENT_ID: "muster",
  });
});

afterAll(async () => {
  await world[Symbol.asyncDispose]();
  for (const each of [server, rights]) {
    each.close();
    each.closeAllConnections();
  }
  await rm(folder, { recursive: true, force: true });
});

/** Allows the user ada to list sessions, and nothing else. */
async function review(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { spec } = (await json(request)) as {
    readonly spec: { readonly user?: string; readonly resourceAttributes?: { verb?: string; resource?: string } };
  };
  const { verb, resource } = spec.resourceAttributes ?? {};
  const allowed = spec.user === "oidc:ada" && verb === "list" && resource === "sessions";
  response.setHeader("content-type", "application/json");
  const { url = "" } = request;
  const kind = url.includes("tokenreviews") ? "TokenReview" : "SubjectAccessReview";
  response.end(JSON.stringify({ kind, spec, status: { allowed, authenticated: false } }));
}

function start(args: readonly string[]) {
  const none = { MUSTER_SERVER: "", MUSTER_TOKEN_FILE: "" };
  return world.muster(args, { env: { ...none, MUSTER_CONFIG: config } });
}

/** Acts as a user in a browser: submits every form until none is left. */
async function confirm(address: string): Promise<string> {
  const cookies = new Map<string, string>();
  const load = async (
    url: string,
    body?: URLSearchParams,
  ): Promise<{ readonly url: string; readonly page: string }> => {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const reply = await fetch(url, { redirect: "manual", headers: { cookie }, ...(body && { method: "POST", body }) });
    for (const each of reply.headers.getSetCookie()) {
      const [name = "", value = ""] = each.split(";")[0]?.split("=") ?? [];
      cookies.set(name, value);
    }
    const location = reply.headers.get("location");
    return location === null ? { url, page: await reply.text() } : load(new URL(location, url).href);
  };
  let { url, page } = await load(address);
  for (let forms = 0; page.includes("<form") && forms < 10; forms += 1) {
    const action = /<form[^>]*action="([^"]*)"/.exec(page)?.[1] ?? url;
    const inputs = [...page.matchAll(/<input[^>]*name="([^"]+)"(?:[^>]*value="([^"]*)")?/g)];
    const body = new URLSearchParams(inputs.map(([, name = "", value = ""]): [string, string] => [name, value]));
    for (const name of ["login", "password"]) if (body.has(name)) body.set(name, "ada");
    if (page.includes('name="confirm"')) body.set("confirm", "yes");
    ({ url, page } = await load(new URL(action, url).href, body));
  }
  return page;
}

it(
  "signs in by the device flow, renews the token by itself, and forgets it at the logout",
  { timeout: 60_000 },
  async () => {
    const gateway = world.gateway?.url ?? "";
    const login = start(["login", "--server", gateway, "--issuer", issuer]);
    await until("the address to confirm is shown", () => login.stderr().includes("confirm the code"));
    const address = /open (\S+)/.exec(login.stderr())?.[1] ?? "";
    await confirm(address);
    const { host } = new URL(gateway);
    expect(await login.ended).toMatchObject({
      code: 0,
      stdout: `signed in at ${gateway}; the current context is ${host}\n`,
    });
    const first = await readFile(config, "utf8");
    expect(first).toContain("refresh-token:");

    expect(await start(["get", "sessions"]).ended).toEqual({ code: 0, stdout: "no sessions\n", stderr: "" });
    const refused = await start(["get", "pools"]).ended;
    expect(refused.stderr).toMatch(/error: user oidc:ada cannot list pools of .*\nhint: an administrator/);
    expect(refused.code).toBe(4);
    expect(await readFile(config, "utf8")).not.toBe(first);

    expect(await start(["logout"]).ended).toMatchObject({ code: 0 });
    expect(await readFile(config, "utf8")).not.toMatch(/(?:id|refresh)-token/);
    expect(await start(["get", "sessions"]).ended).toMatchObject({
      code: 4,
      stderr: `error: the sign-in of user ${host} has expired\nhint: \`muster login\` signs in\n`,
    });
  },
);

it("reports the refusal of an issuer, and an issuer that does not answer", async () => {
  const gateway = world.gateway?.url ?? "";
  const refused = await start(["login", "--server", gateway, "--issuer", issuer, "--client-id", "other"]).ended;
  expect([refused.code, refused.stderr]).toEqual([4, expect.stringContaining("refuses the sign-in: invalid_client")]);
  const away = await start(["login", "--server", gateway, "--issuer", "http://127.0.0.1:1"]).ended;
  expect([away.code, away.stderr]).toEqual([3, expect.stringContaining("cannot sign in at the issuer")]);
});
