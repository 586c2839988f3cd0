import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KubeConfig, type V1Pod } from "@kubernetes/client-node";
import { makeClient, type Client, connectNats } from "@muster/bus";
import { openInformer, makeKubeCalls, listWatch, loadKube } from "@muster/kube";
import { enums, labels, muster, ReservationService, SessionService } from "@muster/proto";
import { makePatientClient, buildProcessEnv, until } from "@muster/testkit";
import { applyAll, readManifests } from "../src/manifests.ts";
import { expectQuietLogs } from "./quiet-logs.ts";
import { type Stack, type StackOptions, startStack } from "../src/stack.ts";

const { ComponentKind } = muster.session.v1;
type Session = muster.session.v1.Session;

const real = process.env["MUSTER_E2E_KUBECONFIG"];

/** Clusters for suites of the whole stack: the embedded one always, a real one when MUSTER_E2E_KUBECONFIG names it. */
export const CLUSTERS: readonly { readonly on: string; readonly options: Partial<StackOptions> }[] = [
  { on: "the embedded cluster", options: {} },
  ...(real === undefined ? [] : [{ on: "the real cluster of MUSTER_E2E_KUBECONFIG", options: { kubeconfig: real } }]),
];

/** A whole stack for a test, with clients of its services and a record of every pod. */
export type World = AsyncDisposable & {
  readonly stack: Stack;
  readonly sessions: Client<typeof SessionService>;
  readonly ledger: Client<typeof ReservationService>;
  /** Uids by pod name, of every pod of Muster that ever existed. */
  readonly podsEver: ReadonlyMap<string, ReadonlySet<string>>;
};

export async function startWorld(options: Partial<StackOptions> = {}): Promise<World> {
  await using starting = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "muster-stack-"));
  starting.defer(() => rm(directory, { recursive: true, force: true }));
  // After every test, once the stack has ended: no service lacked a right that it needed.
  starting.defer(() => expectQuietLogs(join(directory, "stack")));
  if (options.kubeconfig !== undefined) await defineJobs(options.kubeconfig);
  const progress: string[] = [];
  const stack = starting.use(
    await startStack({
      directory: join(directory, "stack"),
      pools: { drivers: 1, workers: 4 },
      baseEnv: { ...buildProcessEnv(), HOME: process.env["HOME"] },
      signal: new AbortController().signal,
      onProgress: (line) => progress.push(line),
      ...options,
      env: { RESERVATION_LOCK_TTL_MS: "1000", SESSION_LOCK_TTL_MS: "2000", SESSION_SWEEP_MS: "1000", ...options.env },
    }),
  );
  const bus = starting.use(await connectNats({ ...stack.nats, name: "test" }));
  const podsEver = new Map<string, Set<string>>();
  const config = new KubeConfig();
  config.loadFromFile(stack.kubeconfig);
  const pods = starting.use(
    openInformer({
      source: listWatch<V1Pod>(config, "/api/v1/pods", { labelSelector: labels.owner }),
      project: (pod) => ({ name: pod.metadata?.name ?? "", uid: pod.metadata?.uid ?? "" }),
    }),
  );
  pods.onChange(({ after }) => {
    if (after === undefined) return;
    podsEver.set(after.name, (podsEver.get(after.name) ?? new Set()).add(after.uid));
  });
  await pods.synced;
  const all = starting.move();
  return {
    stack,
    sessions: makePatientClient(makeClient(bus, SessionService)),
    ledger: makePatientClient(makeClient(bus, ReservationService)),
    podsEver,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** The stack has a job-controller only where the cluster has the definition of jobs. */
async function defineJobs(kubeconfig: string): Promise<void> {
  await using calls = makeKubeCalls(loadKube(kubeconfig));
  await applyAll(calls, await readManifests("deploy/crds/muster.dev_jobs.yaml"));
}

/** One server, one client and a driver that ends after the given time, with the given code, leaving a result. */
export function buildSmallSession(options: {
  driverSeconds: number;
  driverCode?: number;
}): muster.session.v1.SessionSpec.$Properties {
  const program = `
    process.on("SIGTERM", () => process.exit(0));
    if (process.env.WORKER_KIND) setInterval(() => {}, 1000);
    else setTimeout(() => {
      console.log(JSON.stringify({ workers: process.env.QPS_WORKERS.split(",").length }));
      process.exit(${options.driverCode ?? 0});
    }, ${options.driverSeconds * 1000});
  `;
  const component = (name: string, kind: muster.session.v1.ComponentKind, pool: string) => ({
    name,
    kind,
    pool,
    image: "node:24-bookworm-slim",
    command: ["node", "-e", program],
  });
  return {
    components: [
      component("server", ComponentKind.COMPONENT_KIND_SERVER, "workers"),
      component("client", ComponentKind.COMPONENT_KIND_CLIENT, "workers"),
      component("driver", ComponentKind.COMPONENT_KIND_DRIVER, "drivers"),
    ],
    killAfterMs: 2000,
  };
}

/** Builds the same session, with a driver that exits once the file exists. */
export function buildSessionUntilFile(file: string): ReturnType<typeof buildSmallSession> {
  const small = buildSmallSession({ driverSeconds: 0 });
  const command = ["node", "-e", buildWaitCommand(file)];
  const components = small.components?.map((each) => (each.name === "driver" ? { ...each, command } : each));
  return { ...small, components: components ?? [] };
}

/** A program that exits with 0 once the file exists. Containers of the embedded cluster are processes, and see the files of this machine. */
export function buildWaitCommand(file: string): string {
  return `setInterval(() => require("node:fs").existsSync(${JSON.stringify(file)}) && process.exit(0), 50)`;
}

/** Two of each kind of worker in the elastic pool: four machines. */
export function buildElasticSession(driverSeconds: number): ReturnType<typeof buildSmallSession> {
  const small = buildSmallSession({ driverSeconds });
  const components = small.components?.flatMap((component) =>
    component.pool === "workers"
      ? ["a", "b"].map((end) => ({ ...component, pool: "elastic", name: `${component.name ?? ""}-${end}` }))
      : [component],
  );
  return { ...small, components: components ?? [] };
}

export async function submitSession(
  world: World,
  name: string,
  spec: muster.session.v1.SessionSpec.$Properties,
): Promise<void> {
  await world.sessions.submitSession({ requestId: `submit-${name}`, name, spec });
}

/** Waits until the condition holds for the session; retries when a service is down. */
export function waitForSession(
  world: World,
  name: string,
  condition: string,
  holds: (session: Session) => boolean,
): Promise<Session> {
  return until(
    `${name} ${condition}`,
    async () => {
      const { session } = await world.sessions.getSession({ name }, { timeoutMs: 5000 });
      const present = session ?? muster.session.v1.Session.create();
      return holds(present) && present;
    },
    { timeoutMs: 120_000, everyMs: 50 },
  );
}

export const listEventNames = (session: Session): string[] =>
  session.events.map(({ kind }) => enums.SessionEventKind.nameOf(kind) ?? "");

export const isFinished = (session: Session): boolean => session.finishedAtMs > 0;

/** Expects the invariants after every session: no reservation and no pod remains, and no pod was created twice. */
export async function expectNothingLeft(world: World): Promise<void> {
  await until("no reservation and no reserved machine exists", async () => {
    const { reservations } = await world.ledger.listReservations({});
    const { pools } = await world.ledger.listPools({});
    const free = pools.every(({ available, capacity, held }) => available === capacity && held === 0);
    return reservations.length === 0 && free && pools.length > 0;
  });
  for (const [name, uids] of world.podsEver) {
    if (uids.size !== 1) throw new Error(`pod ${name} was created ${uids.size} times`);
  }
}
