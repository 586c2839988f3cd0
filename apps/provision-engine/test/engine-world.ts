import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { makeClient, connectNats, type Client, type NatsBus } from "@muster/bus";
import { buildEndBytes, buildOrderBytes, buildRenewalBytes, mapSecrets, type Order } from "@muster/leases";
import { readSigner, sealText, type Signer } from "@muster/leases/keys";
import { LeaseService, muster, streams, subjects } from "@muster/proto";
import { startTestNats, buildProcessEnv, type TestNats, until, makePatientClient } from "@muster/testkit";
import { toWireEnd, toWireOrder, toWireRenewal } from "@muster/leases/wire";
import { makeOrder } from "./a-lease.ts";

const MAIN = fileURLToPath(new URL("../src/main.ts", import.meta.url));

/** For waits that depend on the speed of the machine. */
export const LONG = { timeoutMs: 90_000, everyMs: 50 };

/** For an engine that must not lose its lead, and its memory with it, on a busy machine. */
export const LASTING_LEAD = { PROVISION_LOCK_TTL_MS: "600000" };

export const ENGINE_KEY = "5a".repeat(32);
export const engineSigner = readSigner("key", ENGINE_KEY);

export type EngineProcess = {
  readonly pid: number;
  hasEnded(): boolean;
  /** Whether it has ever led. */
  hasLed(): boolean;
  /** SIGKILL: the process stops without any message. */
  kill(): Promise<void>;
  /** SIGTERM: the lead is released. */
  stop(): Promise<void>;
  freeze(): void;
  goOn(): void;
};

/** A bus and any number of engines, with everything that they log. */
type User = Parameters<TestNats["variablesOf"]>[0];

export type EngineWorld = AsyncDisposable & {
  readonly nats: TestNats;
  readonly bus: NatsBus;
  readonly leases: Client<typeof LeaseService>;
  /** Everything that engines have written to their logs. */
  readonly logLines: readonly string[];
  startEngine(env?: Readonly<Record<string, string>>, main?: string, user?: User): Promise<EngineProcess>;
};

/** With `users`, engines connect as the user of an installation, which has rights for the engine id `main` only. */
export async function openEngineWorld({ users = true }: { readonly users?: boolean } = {}): Promise<EngineWorld> {
  await using starting = new AsyncDisposableStack();
  const nats = starting.use(await startTestNats({ users }));
  const bus = starting.use(await connectNats({ ...nats.access, name: "test" }));
  const logLines: string[] = [];
  const children = starting.use(new AsyncDisposableStack());
  const startEngine: EngineWorld["startEngine"] = async (env = {}, main = MAIN, user = "provision-engine") => {
    const child = spawn(process.execPath, [main], {
      env: {
        ...buildProcessEnv(),
        ...nats.variablesOf(user),
        PROVISION_KEY: ENGINE_KEY,
        PROVISION_LOCK_TTL_MS: "1500",
        PROVISION_RETRY_MS: "50",
        PROVISION_RETRY_MOST_MS: "500",
        ...env,
      },
      stdio: ["ignore", "ignore", "pipe"],
    });
    let led = false;
    let rest = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      logLines.push(...lines);
      led ||= lines.some((line) => line.includes('"state":"leading"'));
    });
    await once(child, "spawn");
    children.defer(() => ended(child, "SIGKILL"));
    return {
      pid: child.pid ?? 0,
      hasEnded: () => child.exitCode !== null || child.signalCode !== null,
      hasLed: () => led,
      kill: () => ended(child, "SIGKILL"),
      stop: () => ended(child, "SIGTERM"),
      freeze: () => void child.kill("SIGSTOP"),
      goOn: () => void child.kill("SIGCONT"),
    };
  };
  const leases = makePatientClient(makeClient(bus, LeaseService));
  const all = starting.move();
  return { nats, bus, leases, logLines, startEngine, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill(signal);
  // A frozen process handles no signal but SIGKILL until it continues.
  child.kill("SIGCONT");
  await exit;
}

export function makeUser(): Signer {
  return readSigner("key", randomBytes(32).toString("hex"));
}

export const NS_PER_MS = 1_000_000n;

export function nowNs(): bigint {
  return BigInt(Date.now()) * NS_PER_MS;
}

/** The last order of each id, which renewals and ends refer to. */
const lastOrders = new Map<string, Pick<Order, "createdNs">>();
const lastOrder = (id: string) => lastOrders.get(id) ?? { createdNs: 0n };

/** A present order, with its secrets sealed to the engine and signed by its user. */
export function signOrder(user: Signer, changes: Partial<Order> & { readonly id: string }): Order {
  const order = orderOf(user, changes);
  const { id, type } = order;
  const data = mapSecrets({ kind: "order", type, data: order.data }, (secret, field) =>
    sealText(user, engineSigner.userId, String(secret), { kind: "order", id, user: user.userId, field }),
  );
  return signed(user, { ...order, data });
}

/** The same with plain secrets. */
export function signUnchanged(user: Signer, changes: Partial<Order> & { readonly id: string }): Order {
  return signed(user, orderOf(user, changes));
}

function orderOf(user: Signer, changes: Partial<Order> & { readonly id: string }): Order {
  return makeOrder({
    user: user.userId,
    createdNs: nowNs(),
    durationNs: 3_600_000n * NS_PER_MS,
    data: '{"say":"hello"}',
    ...changes,
  });
}

function signed(user: Signer, order: Order): Order {
  lastOrders.set(order.id, order);
  return { ...order, signature: user.sign(buildOrderBytes(order)) };
}

export function signRenewal(user: Signer, id: string, expiresAtNs: bigint, sequence: number) {
  const renewal = { id, engine: "main", user: user.userId, expiresAtNs, sequence, signature: new Uint8Array() };
  return toWireRenewal({ ...renewal, signature: user.sign(buildRenewalBytes(renewal, lastOrder(id))) });
}

export function signEnd(user: Signer, id: string, engine = "main") {
  const end = { id, engine, user: user.userId, createdNs: nowNs(), signature: new Uint8Array() };
  return toWireEnd({ ...end, signature: user.sign(buildEndBytes(end, lastOrder(id))) });
}

const { LeasePhase } = muster.provision.v1;
export type PhaseName = "ORDERED" | "PROVISIONING" | "ACTIVE" | "DECOMMISSIONING" | "ENDED" | "FAILED";

/** Sends the order until an engine answers. */
export function sendOrder(world: EngineWorld, sent: Order) {
  return world.leases.orderLease({ requestId: `r-${sent.id}`, order: toWireOrder(sent), dryRun: false });
}

export async function readPhase({ leases }: EngineWorld, id: string): Promise<string> {
  const { lease } = await leases.getLease({ id });
  return (LeasePhase[lease?.record?.phase ?? 0] ?? "").replace("LEASE_PHASE_", "");
}

export function waitForPhase(world: EngineWorld, id: string, wanted: PhaseName): Promise<unknown> {
  return until(`${id} is ${wanted}`, async () => (await readPhase(world, id)) === wanted, LONG);
}

/** The feedback of a lease, oldest first. */
export async function listAnswers({ bus }: EngineWorld, id: string): Promise<muster.provision.v1.LeaseAnswered[]> {
  const answers = [];
  for (let from = 1; ;) {
    const message = await bus.readMessage(streams.events.name, subjects.leaseAnswered(id), from);
    if (message === undefined) return answers;
    answers.push(muster.provision.v1.LeaseAnswered.decode(message.payload));
    from = message.sequence + 1;
  }
}

/** Event types of a lease, oldest first, once all are on their stream. */
export async function listHistory({ leases }: EngineWorld, id: string): Promise<(string | null | undefined)[]> {
  await until(
    `the history of ${id} is published`,
    async () => (await leases.getLease({ id })).lease?.record?.outbox.length === 0,
    LONG,
  );
  const { events } = await leases.listLeaseHistory({ id, limit: 0, continue: "" });
  return events.map(({ eventType }) => eventType);
}

export async function waitUntilReady({ leases }: EngineWorld): Promise<void> {
  await until(
    "an engine answers",
    () =>
      leases.getCounters({ engine: "" }, { timeoutMs: 5000 }).then(
        () => true,
        () => false,
      ),
    LONG,
  );
}
