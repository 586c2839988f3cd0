import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "@nats-io/transport-node";
import { findNatsServer, startNatsServer } from "@muster/nats-server";
import { until } from "./until.ts";

/** Several real nats-servers that are one cluster, so that streams can have replicas. */
export type TestNatsCluster = AsyncDisposable & {
  /** All servers, separated by commas. */
  readonly url: string;
  readonly token: string;
  /** Index of the server that a client is connected to, or that a stream's leader is, by the name that NATS says: `n-<index>`. */
  indexOf(serverName: string): number;
  /** Ends one with SIGKILL; its store and ports stay. */
  kill(index: number): Promise<void>;
  /** Starts one again. */
  start(index: number): Promise<void>;
};

/** Resolves once JetStream answers. */
export async function natsCluster(size = 3): Promise<TestNatsCluster> {
  const { path: binary } = await findNatsServer({ env: process.env });
  const directory = await mkdtemp(join(tmpdir(), "muster-nats-cluster-"));
  const token = randomBytes(16).toString("hex");
  const ports = await freePorts(size);
  const clientPorts: number[] = Array.from({ length: size }, () => 0);
  const startOne = async (index: number) => {
    const server = await startNatsServer({
      binary,
      directory: join(directory, String(index)),
      port: clientPorts[index] ?? 0,
      token,
      cluster: { name: "test", serverName: `n-${index}`, port: ports[index] ?? 0, ports },
    });
    clientPorts[index] = server.port;
    return server;
  };
  const servers = await Promise.all(ports.map((_port, index) => startOne(index)));
  const cluster: TestNatsCluster = {
    url: servers.map((server) => server.url).join(","),
    token,
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

async function jetStreamAnswers({ url, token }: TestNatsCluster): Promise<boolean> {
  await using connection = await connect({ servers: url.split(","), token });
  const { error } = (await connection.request("$JS.API.INFO", "", { timeout: 1000 })).json<{ error?: object }>();
  return error === undefined;
}

/** Ports that nobody has at this moment; all are held until the last is found, so that they differ. */
async function freePorts(count: number): Promise<number[]> {
  const holders = await Promise.all(
    Array.from({ length: count }, async () => {
      const holder = createServer();
      await new Promise<void>((resolve) => holder.listen(0, "127.0.0.1", resolve));
      return holder;
    }),
  );
  const ports = holders.map((holder) => (holder.address() as AddressInfo).port);
  await Promise.all(holders.map((holder) => new Promise((resolve) => holder.close(resolve))));
  return ports;
}
