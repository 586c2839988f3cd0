import { setTimeout as sleep } from "node:timers/promises";
import { client, publishEvent, type Bus } from "@muster/bus";
import type { Random } from "@muster/chaos/random";
import { describeFault, faultOf, isRetryable } from "@muster/faults";
import { buildEndBytes, buildOrderBytes, buildRenewalBytes, nsFromMs, type Order } from "@muster/leases";
import { readSigner, type Signer } from "@muster/leases/keys";
import { toWireEnd, toWireOrder, toWireRenewal } from "@muster/leases/wire";
import { LeaseService, muster, subjects } from "@muster/proto";
import { simBus } from "./sim-bus.ts";
import type { Process } from "./task-queue.ts";
import type { World } from "./world.ts";

/** What somebody wants of a lease, and when, in milliseconds after the start of the simulation or after the order. */
export type LeaseWish = {
  readonly id: string;
  readonly user: number;
  readonly type: string;
  readonly data: string;
  /** The older lease that it is to take over. */
  readonly reference: string | undefined;
  readonly orderAtMs: number;
  readonly durationMs: number;
  readonly by: "request" | "stream";
  /** The order is sent again then, too. */
  readonly againMs: number | undefined;
  readonly renewMs: number | undefined;
  readonly endMs: number | undefined;
};

export const LEASE_POOL = "machines";
export const LEASE_MACHINES = 4;
/** Of a lease that nobody renews; a renewal adds at most as much. */
export const DURATION_MS_MOST = 60_000;
const USERS = 3;
const TYPES = { debug: 1, container: 4, network: 1.5, machine: 2 };
/** So many of all leases refer to an older one. */
const TAKES_OVER = 0.3;
const AGAIN_MS = 400;
const ENGINE = "main";

export function drawLeases(random: Random, count: number, windowMs: number): LeaseWish[] {
  const sometimes = (share: number, maxMs: number): number | undefined =>
    random.chance(share) ? random.integer(0, maxMs) : undefined;
  const wishes: LeaseWish[] = [];
  for (let index = 0; index < count; index += 1) {
    const type = random.weighted(TYPES);
    const durationMs = random.integer(3000, DURATION_MS_MOST);
    const own = {
      user: random.integer(0, USERS - 1),
      type,
      data: JSON.stringify(drawData(random, type)),
      reference: undefined,
      // What lives in a network is ordered after it.
      orderAtMs: random.integer(0, type === "network" ? windowMs / 4 : windowMs),
    };
    const [first, ...others] = wishes;
    const older = first !== undefined && random.chance(TAKES_OVER) ? random.pick([first, ...others]) : undefined;
    wishes.push({
      id: `${index + 1}-1`,
      ...(older === undefined ? own : takeOver(random, older, windowMs)),
      durationMs,
      by: random.chance(0.7) ? "request" : "stream",
      againMs: sometimes(0.4, DURATION_MS_MOST),
      renewMs: sometimes(0.3, durationMs),
      endMs: sometimes(0.3, durationMs),
    });
  }
  return wishes;
}

/** Mostly for the same, mostly while the older lease is there or on its way; several may want one. */
function takeOver(random: Random, { id, user, type, data, ...older }: LeaseWish, windowMs: number) {
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

/** Users are one process that nothing happens to, though what they send may be lost or come twice. */
export function startLeaseUsers(world: World, wishes: readonly LeaseWish[], untilMs: number): void {
  const process: Process = { name: "users", alive: true, frozenUntilMs: 0, clockOffsetMs: 0 };
  const bus = simBus(world.bus, process, new AbortController().signal);
  const signers = Array.from({ length: USERS }, (_, index) => readSigner("key", `${index + 1}0`.repeat(32)));
  world.time.as(process, () => {
    for (const wish of wishes) {
      const signer = signers[wish.user];
      if (signer !== undefined)
        setTimeout(() => void new Customer(world, bus, wish, { signer, untilMs }).live(), wish.orderAtMs);
    }
  });
}

/** The user of one lease. */
class Customer {
  readonly #world: World;
  readonly #bus: Bus;
  readonly #wish: LeaseWish;
  readonly #signer: Signer;
  readonly #untilMs: number;
  readonly #order: Order;

  constructor(
    world: World,
    bus: Bus,
    wish: LeaseWish,
    { signer, untilMs }: { readonly signer: Signer; readonly untilMs: number },
  ) {
    this.#world = world;
    this.#bus = bus;
    this.#wish = wish;
    this.#signer = signer;
    this.#untilMs = untilMs;
    const { id, type, data, durationMs, reference } = wish;
    const times = { createdNs: nsFromMs(Date.now()), durationNs: nsFromMs(durationMs) };
    const order = { id, engine: ENGINE, user: signer.userId, type, data, ...times, reference, version: 0 };
    this.#order = { ...order, signature: signer.sign(buildOrderBytes(order)), signatureFormat: "muster-lease-v1" };
  }

  async live(): Promise<void> {
    const { againMs, renewMs, endMs } = this.#wish;
    const later = async (ms: number | undefined, what: () => Promise<void>): Promise<void> => {
      if (ms === undefined) return;
      await sleep(ms);
      await what();
    };
    await this.#sendOrder();
    await Promise.all([
      later(againMs, () => this.#sendOrder()),
      later(renewMs, () => this.#renew()),
      later(endMs, () => this.#end()),
    ]);
  }

  #sendOrder(): Promise<void> {
    const { id, by } = this.#wish;
    const order = toWireOrder(this.#order);
    return this.#insist("order", async () => {
      if (by === "request") {
        await client(this.#bus, LeaseService).orderLease({ requestId: `order-${id}`, order, dryRun: false });
        return;
      }
      const messageId = crypto.randomUUID();
      await publishEvent(this.#bus, subjects.orderLease(ENGINE, id), muster.provision.v1.Order, order, { messageId });
    });
  }

  #renew(): Promise<void> {
    const { id, durationMs } = this.#wish;
    const expiresAtNs = this.#order.createdNs + nsFromMs(durationMs * 2);
    const renewal = { id, engine: ENGINE, user: this.#signer.userId, expiresAtNs, sequence: 1 };
    const signature = this.#signer.sign(buildRenewalBytes(renewal, this.#order));
    return this.#insist("renew", async () => {
      const wired = toWireRenewal({ ...renewal, signature });
      await client(this.#bus, LeaseService).renewLease({ requestId: `renew-${id}`, renewal: wired });
    });
  }

  #end(): Promise<void> {
    const { id } = this.#wish;
    const end = { id, engine: ENGINE, user: this.#signer.userId, createdNs: nsFromMs(Date.now()) };
    const signature = this.#signer.sign(buildEndBytes(end, this.#order));
    return this.#insist("end", async () => {
      const wired = toWireEnd({ ...end, signature });
      await client(this.#bus, LeaseService).endLease({ requestId: `end-${id}`, end: wired });
    });
  }

  /** Asks again and again until it is answered, as the command line does. */
  async #insist(what: string, ask: () => Promise<unknown>): Promise<void> {
    const { trace, time } = this.#world;
    const { id } = this.#wish;
    while (time.nowMs < this.#untilMs) {
      try {
        await ask();
        trace.note("users", `${what} ${id} is acknowledged`);
        return;
      } catch (error) {
        const fault = faultOf(error);
        if (fault === undefined) throw error;
        trace.note("users", `${what} ${id}: ${describeFault(fault)}`);
        if (!isRetryable(fault)) return;
        await sleep(AGAIN_MS);
      }
    }
  }
}
