import { aNode, aPool, aSnapshot, aTermination } from "../test/scaling-snapshots.ts";
import type { Unavailability } from "../src/domain/demand.ts";
import type { ScaledNode } from "../src/domain/node.ts";
import type { PoolPolicy } from "../src/domain/pool.ts";
import { buildMark, dropExpired, rememberShortage } from "../src/domain/unavailability.ts";
import { drawExponential, makeRandom } from "./random.ts";
import type { DayPolicy } from "./trivial-policies.ts";
import { DAY_MS, HOUR_MS, type Work } from "./work-of-a-day.ts";

const ROUND_MS = 7000;
const ANSWER_MS = 5000;
const MIN_BOOT_MS = 60_000;
const MAX_BOOT_MS = 180_000;
const BOOT_TIMEOUT_MS = 300_000;
const BOOT_FAILS = 0.03;
const SPOT_LIFE_MS = 8 * HOUR_MS;
const CLEAN_MS = 5000;
const STOP_MS = 30_000;
/** No spot instance is available for half an hour from each of these times on. */
const NO_SPOT_FROM_MS = [9, 14, 16].map((hour) => hour * HOUR_MS);
const NO_SPOT_MS = 1_800_000;

export type Day = {
  /** The time from the order to the end of each instance. */
  readonly paidMs: number;
  /** The time with a demand on the instance. */
  readonly usedMs: number;
  /** The waits of all demands that got a node, including replacements of lost nodes. */
  readonly waitsMs: readonly number[];
  readonly boots: number;
  readonly maxNodes: number;
  /** The number of demands that still waited at the end of the day. */
  readonly waiting: number;
};

type DayEvent = { readonly atMs: number; readonly run: (atMs: number) => void };

/** Simulates one day in virtual time. The seed determines all random events; the day begins with no nodes. */
export function simulateDay(work: readonly Work[], pool: Partial<PoolPolicy>, policy: DayPolicy, seed: number): Day {
  const day = new SimulatedDay(aPool({ max: 2000, ...pool }), seed);
  for (const item of work) day.arrive(item);
  for (let nowMs = 0; nowMs <= DAY_MS; nowMs += ROUND_MS) day.round(nowMs, policy);
  return day.end();
}

/** The records, the waiting demands, and the future events: a simple model of the provider and of the ledger. */
class SimulatedDay {
  readonly #pool: PoolPolicy;
  readonly #random: () => number;
  readonly #happenings: DayEvent[][] = [];
  readonly #nodes = new Map<string, ScaledNode>();
  readonly #waiting = new Map<string, Work>();
  readonly #running = new Map<string, Work>();
  #unavailable: readonly Unavailability[] = [];
  #paidMs = 0;
  #usedMs = 0;
  readonly #waitsMs: number[] = [];
  #boots = 0;
  #maxNodes = 0;

  constructor(pool: PoolPolicy, seed: number) {
    this.#pool = pool;
    this.#random = makeRandom(seed);
  }

  arrive(work: Work): void {
    this.#at(work.demand.createdAtMs, () => this.#waiting.set(work.demand.name, work));
  }

  round(nowMs: number, policy: DayPolicy): void {
    const due = this.#happenings[nowMs / ROUND_MS] ?? [];
    for (const { atMs, run: happen } of due.sort((one, other) => one.atMs - other.atMs)) happen(atMs);
    this.#unavailable = dropExpired(this.#unavailable, nowMs);
    const plan = policy(
      aSnapshot({
        nowMs,
        pools: [this.#pool],
        nodes: [...this.#nodes.values()],
        demands: [...this.#waiting.values()].map(({ demand }) => demand),
        unavailable: this.#unavailable,
        seed: String(nowMs / ROUND_MS),
      }),
    );
    for (const { name, ...status } of plan.updates) this.#change(name, status);
    for (const { name } of plan.stop) this.#stop(name, nowMs);
    for (const { name, spec, boundTo } of plan.start) {
      this.#boot(aNode(name, { ...spec, boundTo, phase: "Creating", createdAtMs: nowMs }), nowMs);
    }
    this.#grant(nowMs);
    this.#maxNodes = Math.max(this.#maxNodes, this.#nodes.size);
  }

  end(): Day {
    for (const { status } of this.#nodes.values()) {
      this.#paidMs += DAY_MS - status.createdAtMs;
      if (status.phase === "Claimed") this.#usedMs += DAY_MS - status.phaseSinceMs;
    }
    return {
      paidMs: this.#paidMs,
      usedMs: this.#usedMs,
      waitsMs: this.#waitsMs,
      boots: this.#boots,
      maxNodes: this.#maxNodes,
      waiting: this.#waiting.size,
    };
  }

  /** The later of two rounds sees the events between them. */
  #at(atMs: number, happen: DayEvent["run"]): void {
    const round = Math.ceil(atMs / ROUND_MS);
    (this.#happenings[round] ??= []).push({ atMs, run: happen });
  }

  #change(name: string, status: Partial<ScaledNode["status"]>): void {
    const node = this.#nodes.get(name);
    if (node !== undefined) this.#nodes.set(name, { ...node, status: { ...node.status, ...status } });
  }

  #boot(node: ScaledNode, nowMs: number): void {
    const { name, spec } = node;
    this.#boots += 1;
    this.#nodes.set(name, node);
    if (spec.spot && NO_SPOT_FROM_MS.some((fromMs) => nowMs >= fromMs && nowMs < fromMs + NO_SPOT_MS)) {
      const full = { kind: "no-capacity", zone: undefined, subnet: undefined, message: "no spot" } as const;
      this.#at(nowMs + ANSWER_MS, (atMs) => {
        this.#nodes.delete(name);
        const asked = { provider: this.#pool.provider, instanceType: spec.instanceType, spot: true };
        this.#unavailable = rememberShortage(this.#unavailable, buildMark(asked, full, atMs));
      });
      return;
    }
    if (this.#random() < BOOT_FAILS) {
      this.#at(nowMs + BOOT_TIMEOUT_MS, (atMs) => this.#stop(name, atMs));
      return;
    }
    const readyMs = nowMs + MIN_BOOT_MS + this.#random() * (MAX_BOOT_MS - MIN_BOOT_MS);
    this.#at(readyMs, (atMs) => {
      if (this.#nodes.get(name)?.status.phase === "Creating")
        this.#change(name, { phase: "Available", phaseSinceMs: atMs });
    });
    if (spec.spot) this.#at(readyMs + drawExponential(this.#random, SPOT_LIFE_MS), (atMs) => this.#lose(name, atMs));
  }

  #stop(name: string, nowMs: number): void {
    const node = this.#nodes.get(name);
    if (node === undefined || node.status.phase === "Terminating") return;
    const status = { ...node.status, phase: "Terminating" as const, phaseSinceMs: nowMs, boundTo: undefined };
    this.#nodes.set(name, { name, spec: { ...node.spec, terminate: aTermination() }, status });
    this.#at(nowMs + STOP_MS, (atMs) => {
      this.#paidMs += atMs - status.createdAtMs;
      this.#nodes.delete(name);
    });
  }

  /** Starts each group whose demands all have a ready node. */
  #grant(nowMs: number): void {
    const ready = new Map<string, string>();
    for (const { name, spec, status } of this.#nodes.values()) {
      if (status.phase === "Available" && status.boundTo !== undefined && !spec.terminate)
        ready.set(status.boundTo, name);
    }
    const groups = Map.groupBy(this.#waiting.values(), ({ demand }) => demand.group);
    for (const members of groups.values()) {
      if (!members.every(({ demand }) => ready.has(demand.name))) continue;
      for (const work of members) this.#run(work, ready.get(work.demand.name) ?? "", nowMs);
    }
  }

  #run({ demand, runMs }: Work, name: string, nowMs: number): void {
    this.#waiting.delete(demand.name);
    this.#waitsMs.push(nowMs - demand.createdAtMs);
    this.#change(name, { phase: "Claimed", phaseSinceMs: nowMs, boundTo: demand.name });
    this.#running.set(name, { demand, runMs });
    this.#at(nowMs + runMs, (atMs) => {
      if (this.#running.get(name)?.demand !== demand) return;
      this.#running.delete(name);
      this.#usedMs += atMs - nowMs;
      this.#change(name, { phase: "Cleaning", phaseSinceMs: atMs, boundTo: undefined });
      this.#at(atMs + CLEAN_MS, (cleanMs) => {
        if (this.#nodes.get(name)?.status.phase !== "Cleaning") return;
        this.#change(name, { phase: "Available", phaseSinceMs: cleanMs, idleSinceMs: undefined });
      });
    });
  }

  /** Loses a node: the rest of its work waits for another node, alone. */
  #lose(name: string, atMs: number): void {
    const node = this.#nodes.get(name);
    const work = this.#running.get(name);
    if (node !== undefined && work !== undefined) {
      this.#running.delete(name);
      this.#usedMs += atMs - node.status.phaseSinceMs;
      const runMs = work.runMs - (atMs - node.status.phaseSinceMs);
      const rest = `${work.demand.name}+`;
      this.#waiting.set(rest, { demand: { ...work.demand, name: rest, group: rest, createdAtMs: atMs }, runMs });
    }
    this.#stop(name, atMs);
  }
}
