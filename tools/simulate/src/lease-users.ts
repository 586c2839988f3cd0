import { setTimeout as sleep } from "node:timers/promises";
import { makeClient, publishEvent, type Bus } from "@muster/bus";
import type { Random } from "@muster/chaos/random";
import { describeFault, findFault, isRetryable } from "@muster/faults";
import { buildEndBytes, buildOrderBytes, buildRenewalBytes, toNanosecondsFromMs, type Order } from "@muster/leases";
import { readSigner, type Signer } from "@muster/leases/keys";
import { toWireEnd, toWireOrder, toWireRenewal } from "@muster/leases/wire";
import { LeaseService, muster, subjects } from "@muster/proto";
import { makeSimBus } from "./sim-bus.ts";
import type { Process } from "./task-queue.ts";
import type { World } from "./world.ts";

/** The requests of one user about a lease, with times in milliseconds after the start of the simulation or after the order. */
export type LeasePlan = {
  readonly id: string;
  readonly user: number;
  readonly type: string;
  readonly data: string;
  /** The older lease that it takes over. */
  readonly reference: string | undefined;
  readonly orderAtMs: number;
  readonly durationMs: number;
  readonly by: "request" | "stream";
  /** Delay after which the order is repeated; undefined: never. */
  readonly repeatMs: number | undefined;
  readonly renewMs: number | undefined;
  readonly endMs: number | undefined;
};

export const LEASE_POOL = "machines";
export const LEASE_MACHINES = 4;
/** Maximum duration of a lease without renewal; a renewal adds at most as much. */
export const MAX_DURATION_MS = 60_000;
const USERS = 3;
const TYPES = { debug: 1, container: 4, network: 1.5, machine: 2 };
/** Share of the leases that take over an older one. */
const TAKE_OVER_SHARE = 0.3;
const RETRY_MS = 400;
const ENGINE = "main";

export function drawLeases(random: Random, count: number, windowMs: number): LeasePlan[] {
  const sometimes = (share: number, maxMs: number): number | undefined =>
    random.chance(share) ? random.integer(0, maxMs) : undefined;
  const plans: LeasePlan[] = [];
  for (let index = 0; index < count; index += 1) {
    const type = random.weighted(TYPES);
    const durationMs = random.integer(3000, MAX_DURATION_MS);
    const own = {
      user: random.integer(0, USERS - 1),
      type,
      data: JSON.stringify(drawData(random, type)),
      reference: undefined,
      // A network is ordered before its members.
      orderAtMs: random.integer(0, type === "network" ? windowMs / 4 : windowMs),
    };
    const [first, ...others] = plans;
    const older = first !== undefined && random.chance(TAKE_OVER_SHARE) ? random.pick([first, ...others]) : undefined;
    plans.push({
      id: `${index + 1}-1`,
      ...(older === undefined ? own : takeOver(random, older, windowMs)),
      durationMs,
      by: random.chance(0.7) ? "request" : "stream",
      repeatMs: sometimes(0.4, MAX_DURATION_MS),
      renewMs: sometimes(0.3, durationMs),
      endMs: sometimes(0.3, durationMs),
    });
  }
  return plans;
}

/** Mostly of the same user, and while the older lease is active or pending. Several leases may take over one. */
function takeOver(random: Random, { id, user, type, data, ...older }: LeasePlan, windowMs: number) {
  const orderAtMs = Math.min(windowMs, older.orderAtMs + random.integer(0, older.durationMs));
  return { user: random.chance(0.9) ? user : random.integer(0, USERS - 1), type, data, reference: id, orderAtMs };
}

function drawData(random: Random, type: keyof typeof TYPES): object {
  const network = random.pick(["home", "work"]);
  switch (type) {
    case "debug":
      return { say: "hello" };
    case "network":
      return { name: network };
    case "machine":
      return { pool: LEASE_POOL, machines: random.integer(1, LEASE_MACHINES - 1) };
    case "container": {
      const capacity = { cpu: random.integer(1, 3), memory: 1024 };
      return { image: "image", capacity, ...(random.chance(0.4) ? { network } : {}) };
    }
  }
}

/** All users are one process without faults; their messages may be lost or duplicated. */
export function startLeaseUsers(world: World, plans: readonly LeasePlan[], untilMs: number): void {
  const process: Process = { name: "users", alive: true, frozenUntilMs: 0, clockOffsetMs: 0 };
  const bus = makeSimBus(world.bus, process, new AbortController().signal);
  const signers = Array.from({ length: USERS }, (_, index) => readSigner("key", `${index + 1}0`.repeat(32)));
  world.time.as(process, () => {
    for (const plan of plans) {
      const signer = signers[plan.user];
      if (signer !== undefined)
        setTimeout(() => void new LeaseUser(world, bus, plan, { signer, untilMs }).live(), plan.orderAtMs);
    }
  });
}

/** The user of one lease. */
class LeaseUser {
  readonly #world: World;
  readonly #bus: Bus;
  readonly #plan: LeasePlan;
  readonly #signer: Signer;
  readonly #untilMs: number;
  readonly #order: Order;

  constructor(
    world: World,
    bus: Bus,
    plan: LeasePlan,
    { signer, untilMs }: { readonly signer: Signer; readonly untilMs: number },
  ) {
    this.#world = world;
    this.#bus = bus;
    this.#plan = plan;
    this.#signer = signer;
    this.#untilMs = untilMs;
    const { id, type, data, durationMs, reference } = plan;
    const times = { createdNs: toNanosecondsFromMs(Date.now()), durationNs: toNanosecondsFromMs(durationMs) };
    const order = { id, engine: ENGINE, user: signer.userId, type, data, ...times, reference, version: 0 };
    this.#order = { ...order, signature: signer.sign(buildOrderBytes(order)), signatureFormat: "muster-lease-v1" };
  }

  async live(): Promise<void> {
    const { repeatMs, renewMs, endMs } = this.#plan;
    const later = async (ms: number | undefined, send: () => Promise<void>): Promise<void> => {
      if (ms === undefined) return;
      await sleep(ms);
      await send();
    };
    await this.#sendOrder();
    await Promise.all([
      later(repeatMs, () => this.#sendOrder()),
      later(renewMs, () => this.#renew()),
      later(endMs, () => this.#end()),
    ]);
  }

  #sendOrder(): Promise<void> {
    const { id, by } = this.#plan;
    const order = toWireOrder(this.#order);
    return this.#sendUntilAnswered("order", async () => {
      if (by === "request") {
        await makeClient(this.#bus, LeaseService).orderLease({ requestId: `order-${id}`, order, dryRun: false });
        return;
      }
      const messageId = crypto.randomUUID();
      await publishEvent(this.#bus, subjects.orderLease(ENGINE, id), muster.provision.v1.Order, order, { messageId });
    });
  }

  #renew(): Promise<void> {
    const { id, durationMs } = this.#plan;
    const expiresAtNs = this.#order.createdNs + toNanosecondsFromMs(durationMs * 2);
    const renewal = { id, engine: ENGINE, user: this.#signer.userId, expiresAtNs, sequence: 1 };
    const signature = this.#signer.sign(buildRenewalBytes(renewal, this.#order));
    return this.#sendUntilAnswered("renew", async () => {
      const wired = toWireRenewal({ ...renewal, signature });
      await makeClient(this.#bus, LeaseService).renewLease({ requestId: `renew-${id}`, renewal: wired });
    });
  }

  #end(): Promise<void> {
    const { id } = this.#plan;
    const end = { id, engine: ENGINE, user: this.#signer.userId, createdNs: toNanosecondsFromMs(Date.now()) };
    const signature = this.#signer.sign(buildEndBytes(end, this.#order));
    return this.#sendUntilAnswered("end", async () => {
      const wired = toWireEnd({ ...end, signature });
      await makeClient(this.#bus, LeaseService).endLease({ requestId: `end-${id}`, end: wired });
    });
  }

  /** Retries until it gets an answer, like the command line. */
  async #sendUntilAnswered(verb: string, send: () => Promise<unknown>): Promise<void> {
    const { trace, time } = this.#world;
    const { id } = this.#plan;
    while (time.nowMs < this.#untilMs) {
      try {
        await send();
        trace.note("users", `${verb} ${id} is acknowledged`);
        return;
      } catch (error) {
        const fault = findFault(error);
        if (fault === undefined) throw error;
        trace.note("users", `${verb} ${id}: ${describeFault(fault)}`);
        if (!isRetryable(fault)) return;
        await sleep(RETRY_MS);
      }
    }
  }
}
