import type { ChildProcess } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, open, readFile, rm, writeFile } from "node:fs/promises";
import { get } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnGuarded } from "@muster/nats-server";
import { findFreePorts } from "./free-ports.ts";
import { type Certificate, makeCertificateAuthority, makeSignedCertificate } from "./certificates.ts";
import { until } from "./until.ts";

/** A real kube-apiserver with its own etcd, RBAC on, for one test file. */
export type TestKubeApiServer = AsyncDisposable & {
  /** `https://127.0.0.1:port`. */
  readonly url: string;
  /** File that client-node and kubectl accept; its user is in system:masters. */
  readonly kubeconfig: string;
  readonly token: string;
  /** PEM of the authority of the server's certificate. */
  readonly ca: string;
  /** PEM: the server shows a client certificate of this authority when it talks to a kubelet (logs). */
  readonly kubeletClientCa: string;
};

type KubeAssets =
  { readonly found: true; readonly directory: string } | { readonly found: false; readonly reason: string };

const READY_TIMEOUT_MS = 60_000;
const START_ATTEMPTS = 3;
/** Makes Go collect garbage a quarter as often: the processes live briefly, and garbage collection took a fifth of their start time. */
const GO_ENV = { GOGC: "400" };

/** The folder with kube-apiserver and etcd, or the reason for a suite to show when it skips. With CI=true a missing folder is an error. */
export function findKubeAssets(env: NodeJS.ProcessEnv = process.env): KubeAssets {
  const reason = findMissingProgram(env["KUBEBUILDER_ASSETS"]);
  if (reason === undefined) return { found: true, directory: env["KUBEBUILDER_ASSETS"] ?? "" };
  if (env["CI"] === "true") throw new Error(`CI=true allows no skipped suite: ${reason}`);
  return { found: false, reason };
}

/**
 * Starts etcd and kube-apiserver on free loopback ports and resolves once the API answers. Disposing ends both and removes their folder. Neither outlives
 * this process, however that ends.
 */
export async function startKubeApiServer(): Promise<TestKubeApiServer> {
  const assets = findKubeAssets();
  if (!assets.found) throw new Error(assets.reason);
  const directory = await mkdtemp(join(tmpdir(), "muster-kube-"));
  const token = randomBytes(24).toString("hex");
  const ca = await writeCredentials(directory, token);
  const started = await startBoth(assets.directory, directory, { token, ca: ca.cert }).catch(async (error: unknown) => {
    await rm(directory, { recursive: true, force: true });
    throw error;
  });
  const url = `https://127.0.0.1:${started.port}`;
  const kubeconfig = join(directory, "kubeconfig");
  await writeFile(kubeconfig, renderKubeconfig(url, ca.cert, token), { mode: 0o600 });
  return {
    url,
    kubeconfig,
    token,
    ca: ca.cert,
    kubeletClientCa: ca.cert,
    [Symbol.asyncDispose]: async () => {
      await started.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

function findMissingProgram(directory: string | undefined): string | undefined {
  const way =
    "set KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd (setup-envtest prints one) to run against a real API server";
  if (directory === undefined || directory === "") return `KUBEBUILDER_ASSETS is not set; ${way}`;
  const missing = ["kube-apiserver", "etcd"].filter((name) => !existsSync(join(directory, name)));
  if (missing.length === 0) return undefined;
  return `KUBEBUILDER_ASSETS=${directory} has no ${missing.join(" and no ")}; ${way}`;
}

async function writeCredentials(directory: string, token: string): Promise<Certificate> {
  const ca = await makeCertificateAuthority("muster-test-ca");
  const server = await makeSignedCertificate(ca, { commonName: "kube-apiserver", use: "server" });
  const kubeletClient = await makeSignedCertificate(ca, {
    commonName: "kube-apiserver-kubelet-client",
    organization: "system:masters",
    use: "client",
  });
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const files = {
    "ca.crt": ca.cert,
    "server.crt": server.cert,
    "server.key": server.key,
    "kubelet-client.crt": kubeletClient.cert,
    "kubelet-client.key": kubeletClient.key,
    "service-account.key": privateKey.export({ type: "sec1", format: "pem" }),
    "service-account.pub": publicKey.export({ type: "spki", format: "pem" }),
    "tokens.csv": `${token},admin,admin,"system:masters"\n`,
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text, { mode: 0o600 });
  return ca;
}

type Started = { readonly port: number; readonly stop: () => Promise<void> };

/** Another process may take a free port before the server binds it: then other ports are tried. */
async function startBoth(
  binaries: string,
  directory: string,
  credentials: { readonly token: string; readonly ca: string },
): Promise<Started> {
  for (let attempt = 1; ; attempt++) {
    const [port, etcdPort, peerPort] = await findFreePorts(3);
    const data = join(directory, `etcd-${attempt}`);
    const etcd = await start(join(binaries, "etcd"), directory, etcdFlags(data, etcdPort ?? 0, peerPort ?? 0));
    const apiServer = await start(
      join(binaries, "kube-apiserver"),
      directory,
      apiServerFlags(directory, port ?? 0, etcdPort ?? 0),
    );
    const stop = async (): Promise<void> => {
      await apiServer.kill();
      await etcd.kill();
    };
    try {
      await until(
        "kube-apiserver answers",
        async () => {
          if (etcd.ended() || apiServer.ended()) return "ended";
          // Requested one by one: while one request fails the others are not sent, because each costs a handshake.
          for (const path of ["/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-system"]) {
            if ((await statusOf(`https://127.0.0.1:${port}${path}`, credentials)) !== 200) return false;
          }
          return "ready";
        },
        { timeoutMs: READY_TIMEOUT_MS, everyMs: 50 },
      );
      if (!etcd.ended() && !apiServer.ended()) return { port: port ?? 0, stop };
      throw new Error(`etcd: ${await etcd.lastWords()}; kube-apiserver: ${await apiServer.lastWords()}`);
    } catch (error) {
      await stop();
      if (attempt >= START_ATTEMPTS) throw error;
    }
  }
}

function etcdFlags(data: string, port: number, peerPort: number): string[] {
  const peer = `http://127.0.0.1:${peerPort}`;
  return [
    `--data-dir=${data}`,
    `--listen-client-urls=http://127.0.0.1:${port}`,
    `--advertise-client-urls=http://127.0.0.1:${port}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=default=${peer}`,
    "--unsafe-no-fsync",
  ];
}

function apiServerFlags(directory: string, port: number, etcdPort: number): string[] {
  const file = (name: string): string => join(directory, name);
  return [
    `--etcd-servers=http://127.0.0.1:${etcdPort}`,
    "--bind-address=127.0.0.1",
    "--advertise-address=127.0.0.1",
    "--endpoint-reconciler-type=none",
    `--secure-port=${port}`,
    `--cert-dir=${directory}`,
    `--tls-cert-file=${file("server.crt")}`,
    `--tls-private-key-file=${file("server.key")}`,
    `--client-ca-file=${file("ca.crt")}`,
    `--token-auth-file=${file("tokens.csv")}`,
    "--authorization-mode=RBAC",
    "--disable-admission-plugins=ServiceAccount",
    "--service-cluster-ip-range=10.96.0.0/24",
    "--service-account-issuer=https://kubernetes.default.svc",
    `--service-account-key-file=${file("service-account.pub")}`,
    `--service-account-signing-key-file=${file("service-account.key")}`,
    `--kubelet-client-certificate=${file("kubelet-client.crt")}`,
    `--kubelet-client-key=${file("kubelet-client.key")}`,
    "--kubelet-preferred-address-types=InternalIP",
    "--allow-privileged=true",
  ];
}

type Server = {
  readonly ended: () => boolean;
  readonly kill: () => Promise<void>;
  readonly lastWords: () => Promise<string>;
};

async function start(binary: string, directory: string, flags: readonly string[]): Promise<Server> {
  const logFile = join(directory, `${binary.split("/").at(-1) ?? "server"}.log`);
  await using log = await open(logFile, "a");
  const child = spawnGuarded(binary, flags, log.fd, GO_ENV);
  const ended = (): boolean => child.exitCode !== null || child.signalCode !== null || child.pid === undefined;
  return {
    ended,
    kill: () => killed(child, ended),
    lastWords: async () => (await readFile(logFile, "utf8")).trim().split("\n").slice(-3).join(" | "),
  };
}

async function killed(child: ChildProcess, ended: () => boolean): Promise<void> {
  if (ended()) return;
  const exit = once(child, "exit");
  child.kill("SIGKILL");
  await exit;
}

function statusOf(url: string, { token, ca }: { readonly token: string; readonly ca: string }): Promise<number> {
  return new Promise((resolve) => {
    const request = get(url, { ca, headers: { authorization: `Bearer ${token}` }, timeout: 2_000 }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    request.on("timeout", () => request.destroy());
    request.on("error", () => {
      resolve(0);
    });
  });
}

function renderKubeconfig(server: string, ca: string, token: string): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [
      {
        name: "test",
        cluster: { server, "certificate-authority-data": Buffer.from(ca).toString("base64") },
      },
    ],
    users: [{ name: "admin", user: { token } }],
    contexts: [{ name: "test", context: { cluster: "test", user: "admin", namespace: "default" } }],
    "current-context": "test",
  });
}
