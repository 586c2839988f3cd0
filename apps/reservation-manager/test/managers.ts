import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { makeClient, connectNats, type Client, type NatsBus } from "@muster/bus";
import { findFault, isRetryable } from "@muster/faults";
import { bucketKeys, buckets, muster, ReservationService, subjects } from "@muster/proto";
import { openBucket } from "@muster/store";
import type { TestNats } from "@muster/testkit";
import { buildProcessEnv, makePatientClient } from "@muster/testkit";
import { nodeCodec, type NodeEntry } from "../src/adapters/messages.ts";

/** One replica of the service in its own process. */
export type ManagerProcess = AsyncDisposable & {
  readonly pid: number | undefined;
  /** Number of times that it became the leader and opened the ledger. */
  readonly leads: number;
  readonly errors: readonly string[];
  /** Base URL of /metrics; undefined until it has started. */
  readonly http: string | undefined;
  /** Number of times that it logged the loss of the lead. */
  readonly losses: number;
  /** Suspends the process until it is resumed. */
  freeze(): void;
  goOn(): void;
  /** Ends the process; resolves with its exit code, null after SIGKILL. */
  end(signal: "SIGTERM" | "SIGKILL"): Promise<number | null>;
};

const main = fileURLToPath(new URL("../src/main.ts", import.meta.url));

/** Starts a replica whose lock outlives short pauses of a busy machine. A test that counts leads sets a longer lock. */
export function startManager(server: TestNats, env: Record<string, string> = {}): ManagerProcess {
  const child = spawn(process.execPath, [main], {
    stdio: ["ignore", "inherit", "pipe"],
    env: {
      ...buildProcessEnv(),
      MUSTER_NATS_URL: server.url,
      MUSTER_NATS_TOKEN: server.token,
      RESERVATION_LOCK_TTL_MS: "3000",
      ...env,
    },
  });
  const exited = once(child, "exit");
  const errors: string[] = [];
  let leads = 0;
  let losses = 0;
  let http: string | undefined;
  createInterface({ input: child.stderr }).on("line", (line) => {
    if (line.includes('"keeping the ledger"')) leads += 1;
    if (line.includes('"state":"lost"')) losses += 1;
    http ??= /"http":"([^"]+)"/.exec(line)?.[1];
    if (!line.startsWith("{") || line.includes('"level":"error"')) errors.push(line);
  });
  const end = async (signal: "SIGTERM" | "SIGKILL"): Promise<number | null> => {
    child.kill(signal);
    await exited;
    return child.exitCode;
  };
  return {
    get leads() {
      return leads;
    },
    get losses() {
      return losses;
    },
    get http() {
      return http;
    },
    pid: child.pid,
    errors,
    freeze: () => child.kill("SIGSTOP"),
    goOn: () => child.kill("SIGCONT"),
    end,
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode === null && child.signalCode === null) await end("SIGKILL");
    },
  };
}

/** Connects with the inbox of this user, as every service and the command line do; by default as a service that requests machines. */
export function connectUser(server: TestNats, user = "session-controller"): Promise<NatsBus> {
  return connectNats({ url: server.url, token: server.token, name: "test", inboxPrefix: subjects.inbox(user) });
}

export type Reservations = Client<typeof ReservationService>;

export function makeReservations(bus: NatsBus): Reservations {
  return makePatientClient(makeClient(bus, ReservationService));
}

/** Retries while the answer is a retryable fault, as every caller of the service has to. */
export async function retryUntilAnswered<Result>(call: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      const fault = findFault(error);
      if (fault === undefined || !isRetryable(fault) || fault.code === "pool_availability") throw error;
    }
  }
}

/** Writes nodes as the watcher does. */
export type NodeWriter = {
  put(name: string, pool: string, more?: Partial<muster.watch.v1.NodeState>): Promise<void>;
  remove(name: string): Promise<void>;
  /** Writes the mark that all nodes are published; every `openNodeWriter` writes it once by default. */
  complete(atMs?: number): Promise<void>;
};

export async function openNodeWriter(
  bus: NatsBus,
  options: { complete: boolean } = { complete: true },
): Promise<NodeWriter> {
  const bucket = await openBucket(bus.connection, { name: buckets.nodes, codec: nodeCodec });
  const write = async (key: string, value: NodeEntry): Promise<void> => {
    const entry = await bucket.get(key);
    await (entry === undefined ? bucket.create(key, value) : bucket.update(key, value, entry.revision));
  };
  const complete = (atMs = Date.now()): Promise<void> => write(bucketKeys.nodesComplete, { kind: "complete", atMs });
  if (options.complete) await complete();
  return {
    complete,
    put: (name, pool, more = {}) => {
      const state = { name, labels: { pool }, ready: true, schedulable: true, ...more };
      return write(name, { kind: "node", state: muster.watch.v1.NodeState.create(state) });
    },
    remove: async (name) => {
      const entry = await bucket.get(name);
      if (entry !== undefined) await bucket.delete(name, entry.revision);
    },
  };
}

/** Builds needs named c0, c1, ... in the order of the pools. */
export function buildNeeds(...pools: readonly string[]): { component: string; pool: string }[] {
  return pools.map((pool, index) => ({ component: `c${index}`, pool }));
}
