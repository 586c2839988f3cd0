import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, nkeyAuthenticator, type NatsConnection } from "@nats-io/transport-node";
import { findNatsServer, makeNkey, NATS_USERS, type NatsUserName, startNatsServer } from "@muster/nats-server";
import { findFreePorts } from "./free-ports.ts";
import { makeCertificateAuthority, makeSignedCertificate } from "./certificates.ts";
import { until } from "./until.ts";

/** Several real nats-servers that are one cluster, so that streams can have replicas. */
export type TestNatsCluster = AsyncDisposable & {
  /** URLs of all servers, separated by commas. */
  readonly url: string;
  readonly token: string;
  /** For servers with TLS and the users of an installation: the authority of their certificates, and the key of each user. */
  readonly secured: SecuredNats | undefined;
  /** A connection as this user, or by the token. */
  connect(user: NatsUserName): Promise<NatsConnection>;
  /** Index of a server by its NATS name, `n-<index>`, as in the connection of a client or the leader of a stream. */
  indexOf(serverName: string): number;
  /** Ends one with SIGKILL; its store and ports stay. */
  kill(index: number): Promise<void>;
  /** Starts one again. */
  start(index: number): Promise<void>;
};

type SecuredNats = { readonly caFile: string; readonly nkeyFileOf: (user: NatsUserName) => string };

/** Resolves once JetStream answers. `secured`: TLS, and users with their rights, instead of clients with the token. */
export async function startNatsCluster(
  size = 3,
  options: { readonly secured?: boolean } = {},
): Promise<TestNatsCluster> {
  const { path: binary } = await findNatsServer({ env: process.env });
  const directory = await mkdtemp(join(tmpdir(), "muster-nats-cluster-"));
  const token = randomBytes(16).toString("hex");
  const security = options.secured === true ? await secure(directory) : undefined;
  const ports = await findFreePorts(size);
  // No system assigns these to a connection while a server is down.
  const clientPorts = await findFreePorts(size);
  const startOne = (index: number) =>
    startNatsServer({
      binary,
      directory: join(directory, String(index)),
      port: clientPorts[index] ?? 0,
      token,
      ...security?.server,
      cluster: { name: "test", serverName: `n-${index}`, port: ports[index] ?? 0, ports },
    });
  const servers = await Promise.all(ports.map((_port, index) => startOne(index)));
  const cluster: TestNatsCluster = {
    url: servers.map((server) => server.url).join(","),
    token,
    secured: security?.client,
    connect: (user) => {
      const access = security === undefined ? { token } : security.accessOf(user);
      return connect({ servers: cluster.url.split(","), ...access, maxReconnectAttempts: -1, reconnectTimeWait: 50 });
    },
    indexOf: (serverName) => Number(serverName.slice("n-".length)),
    kill: async (index) => servers[index]?.kill(),
    start: async (index) => {
      servers[index] = await startOne(index);
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
      await rm(directory, { recursive: true, force: true });
    },
  };
  await until("JetStream has a leader", () => jetStreamAnswers(cluster));
  return cluster;
}

async function jetStreamAnswers(cluster: TestNatsCluster): Promise<boolean> {
  await using connection = await cluster.connect("cli");
  const { error } = (await connection.request("$JS.API.INFO", "", { timeout: 1000 })).json<{ error?: object }>();
  return error === undefined;
}

/** A certificate for all servers, and a key for each user. */
async function secure(directory: string) {
  const authority = await makeCertificateAuthority("test");
  const { cert, key } = await makeSignedCertificate(authority, { commonName: "nats", use: "server" });
  const folder = join(directory, "keys");
  await mkdir(folder, { mode: 0o700 });
  const pathOf = (name: string): string => join(folder, name);
  const keys = new Map(NATS_USERS.map((user) => [user, makeNkey()]));
  const texts = [...keys].map(([user, { seed }]) => [`${user}.nk`, seed] as const);
  for (const [name, text] of [["ca.crt", authority.cert], ["tls.crt", cert], ["tls.key", key], ...texts] as const)
    await writeFile(pathOf(name), text, { mode: 0o600 });
  const caFile = pathOf("ca.crt");
  return {
    server: {
      tls: { certFile: pathOf("tls.crt"), keyFile: pathOf("tls.key") },
      users: (user: NatsUserName) => keys.get(user)?.publicKey ?? "",
    },
    client: { caFile, nkeyFileOf: (user: NatsUserName) => pathOf(`${user}.nk`) },
    accessOf: (user: NatsUserName) => ({
      tls: { caFile },
      authenticator: nkeyAuthenticator(new TextEncoder().encode(keys.get(user)?.seed)),
      inboxPrefix: `_INBOX.${user}`,
    }),
  };
}
