import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeCertificateAuthority, makeSignedCertificate } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startSessionWorld, type SessionWorld } from "./session-world.ts";

let world: SessionWorld;
let folder: string;
let server: string;
let ca: string;
let config: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "muster-contexts-"));
  const authority = await makeCertificateAuthority("test");
  const { cert, key } = await makeSignedCertificate(authority, { commonName: "gateway", use: "server" });
  const files = { ca: authority.cert, cert, key };
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, `${name}.pem`), text);
  ca = join(folder, "ca.pem");
  world = await startSessionWorld("gateway", {
    GATEWAY_TLS_CERT_FILE: join(folder, "cert.pem"),
    GATEWAY_TLS_KEY_FILE: join(folder, "key.pem"),
  });
  server = world.gateway?.url ?? "";
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

const containing = (text: string): unknown => expect.stringContaining(text);

let files = 0;
beforeEach(() => {
  files += 1;
  config = join(folder, `config-${files}.yaml`);
});

/** Runs the command with only the test's file of contexts. */
function muster(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const none = { MUSTER_SERVER: "", MUSTER_TOKEN_FILE: "" };
  return world.muster(args, { env: { ...none, MUSTER_CONFIG: config, ...env } }).ended;
}

const tokenFile = (): string => world.gateway?.tokenFile ?? "";

describe("--server", () => {
  it("takes the certificate authority and the token of the command line", async () => {
    const options = ["--server", server, "--certificate-authority", ca, "--token-file", tokenFile()];
    expect(await muster([...options, "get", "pools"])).toMatchObject({ code: 0, stderr: "" });
  });

  it("refuses an unknown certificate, and names the option", async () => {
    const { code, stderr } = await muster(["--server", server, "--token-file", tokenFile(), "get", "pools"]);
    expect(code).toBe(3);
    expect(stderr).toMatch(/error: cannot connect to https:.* \(option --server\): its certificate is refused: /);
    expect(stderr).toContain(
      "hint: name the CA certificates that verify it with --certificate-authority FILE or MUSTER_SERVER_CA_FILE",
    );
  });

  it("names `muster login` if a token is missing or unknown", async () => {
    const env = { MUSTER_SERVER: server, MUSTER_SERVER_CA_FILE: ca };
    for (const token of ["", "unknown"]) {
      const { code, stderr } = await muster(["get", "pools"], { ...env, MUSTER_TOKEN: token });
      expect(code).toBe(4);
      expect(stderr).toContain(`error: ${server} (MUSTER_SERVER) refuses the token`);
      expect(stderr).toContain("hint: sign in with `muster login`");
    }
  });

  it("reports why no gateway answers", async () => {
    expect(await muster(["--server", "https://127.0.0.1:1", "get", "pools"])).toMatchObject({
      code: 3,
      stderr: containing("cannot connect to https://127.0.0.1:1 (option --server): connect ECONNREFUSED"),
    });
    expect(await muster(["--server", "muster.example.com", "get", "pools"])).toMatchObject({
      code: 2,
      stderr: containing('"muster.example.com" is no address of a gateway'),
    });
  });

  it("names NATS for requests that the gateway does not serve", async () => {
    const env = { MUSTER_SERVER: server, MUSTER_SERVER_CA_FILE: ca, MUSTER_TOKEN_FILE: tokenFile() };
    for (const args of [["doctor"], ["dead-letters", "list"], ["backup", join(folder, "copy")]]) {
      const { code, stderr } = await muster(args, env);
      expect([args, code]).toEqual([args, 2]);
      expect(stderr).toMatch(/needs NATS: the gateway does not have it\nhint: .*--nats-url/);
    }
  });

  it("refuses --nats-url beside it", async () => {
    const { code, stderr } = await muster(["--server", server, "--nats-url", "nats://127.0.0.1:1", "get", "pools"]);
    expect([code, stderr]).toEqual([2, containing("cannot be used with option")]);
  });
});

describe("contexts", () => {
  const login = () => muster(["login", "--server", server, "--token-file", tokenFile(), "--certificate-authority", ca]);

  it("are created by a login, and used without any option", async () => {
    const { host } = new URL(server);
    expect(await login()).toMatchObject({
      code: 0,
      stdout: `signed in at ${server}; the current context is ${host}\n`,
    });
    expect((await stat(config)).mode & 0o777).toBe(0o600);
    expect(await readFile(config, "utf8")).not.toContain(world.gateway?.token);
    expect(await muster(["get", "pools"])).toMatchObject({ code: 0 });
    const { stdout } = await muster(["config", "get-contexts", "-o", "json"]);
    expect(JSON.parse(stdout)).toEqual([{ name: host, server, user: host, namespace: "default", isCurrent: true }]);
  });

  it("are in ~/.config/muster/config.yaml unless MUSTER_CONFIG names another file", async () => {
    const env = { HOME: join(folder, "home"), MUSTER_CONFIG: "", MUSTER_SERVER: "", MUSTER_TOKEN_FILE: "" };
    const atHome = (...args: readonly string[]) => world.process(args, { env }).ended;
    const signIn = ["login", "--server", server, "--token-file", tokenFile(), "--certificate-authority", ca];
    expect(await atHome(...signIn)).toMatchObject({ code: 0 });
    expect(await readFile(join(env.HOME, ".config/muster/config.yaml"), "utf8")).toContain(server);
    expect(await atHome("get", "pools")).toMatchObject({ code: 0, stderr: "" });
  });

  it("are not made by a login at an address without TLS on another machine, unless that is allowed", async () => {
    const remote = ["login", "--server", "http://muster.example.com", "--token-file", tokenFile()];
    const before = (await muster(["config", "view"])).stdout;
    expect(await muster(remote)).toMatchObject({
      code: 2,
      stderr: containing("http://muster.example.com (context muster.example.com) has no TLS"),
    });
    expect((await muster(["config", "view"])).stdout).toBe(before);
    expect(await muster(remote, { MUSTER_PLAIN_HTTP: "true" })).toMatchObject({ code: 0 });
    await muster(["config", "unset-context"]);
  });

  it("go after MUSTER_NATS_URL, and before the local stack", async () => {
    await login();
    const nats = { MUSTER_NATS_URL: world.url, MUSTER_NATS_TOKEN: world.token };
    expect(await muster(["doctor"], nats)).toMatchObject({ stdout: containing("jetstream") });
  });

  it("are set, listed, chosen and shown", async () => {
    const set = ["config", "set-context", "prod", "--server", "https://muster.example.com", "-n", "research"];
    expect(await muster(set)).toMatchObject({ code: 0, stdout: "context prod is set\n" });
    expect(await muster(["config", "use-context", "prod"])).toMatchObject({ code: 0 });
    expect((await muster(["config", "get-contexts"])).stdout).toMatch(
      /CURRENT +NAME +SERVER +USER +NAMESPACE\n\* +prod +https:\/\/muster.example.com +prod +research\n/,
    );
    expect(await muster(["config", "use-context", "other"])).toMatchObject({ code: 2 });
    await muster(["config", "unset-context"]);
    expect((await muster(["config", "view", "-o", "json"])).stdout).not.toContain("current-context");
  });

  it("take users of a kubeconfig: a token, and a program that prints one", async () => {
    const users = {
      token: { token: world.gateway?.token },
      exec: {
        exec: {
          apiVersion: "client.authentication.k8s.io/v1",
          command: process.execPath,
          args: [
            "-e",
            "console.log(JSON.stringify({ kind: 'ExecCredential', status: { token: process.env.SECRET, info: process.env.KUBERNETES_EXEC_INFO } }))",
          ],
          env: [{ name: "SECRET", value: world.gateway?.token }],
        },
      },
      failing: { exec: { apiVersion: "client.authentication.k8s.io/v1", command: "/nonexistent/program" } },
    };
    const text = JSON.stringify({
      clusters: [{ name: "c", cluster: { server, "certificate-authority": "ca.pem" } }],
      users: Object.entries(users).map(([name, user]) => ({ name, user })),
      contexts: Object.keys(users).map((name) => ({ name, context: { cluster: "c", user: name } })),
    });
    await writeFile(config, text, { mode: 0o600 });
    for (const name of ["token", "exec"])
      expect([name, await muster(["--context", name, "get", "pools"])]).toMatchObject([name, { code: 0, stderr: "" }]);
    expect(await muster(["--context", "failing", "get", "pools"])).toMatchObject({
      code: 2,
      stderr: containing("the program /nonexistent/program of user failing gives no token"),
    });
    const { stdout } = await muster(["config", "view"]);
    expect(stdout).not.toContain(world.gateway?.token);
    expect(stdout.match(/REDACTED/g)).toHaveLength(2);
    await chmod(config, 0o644);
    expect(await muster(["get", "pools"])).toMatchObject({
      code: 2,
      stderr: `error: other users may read the secrets in ${config}\nhint: \`chmod 600 ${config}\`\n`,
    });
  });

  it("have no tokens after a logout", async () => {
    await login();
    const { code, stdout } = await muster(["logout"]);
    expect([code, ...stdout.trimEnd().split("\n")]).toEqual([
      ...[0, `signed out of ${server}`],
      containing("stays the current context; `muster config unset-context` changes that"),
    ]);
    expect(await muster(["get", "pools"])).toMatchObject({ code: 4 });
  });

  it("with a wrong form are refused with the field", async () => {
    await writeFile(config, "clusters: [{ name: c, cluster: {} }]\n");
    const { code, stderr } = await muster(["get", "pools"]);
    expect([code, stderr]).toEqual([2, containing("clusters[0].cluster.server")]);
  });
});
