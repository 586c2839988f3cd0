import type { ScalingPlan, ScalingSnapshot, StartStep } from "../src/domain/compute.ts";
import type { Demand } from "../src/domain/demand.ts";
import type { FreeMachine } from "../src/domain/fit.ts";
import type { NodeSpec, ScaledNode } from "../src/domain/node.ts";
import type { PoolPolicy } from "../src/domain/pool.ts";
import {
  chooseInstance,
  findMachine,
  findNode,
  fits,
  kindsOfStandby,
  order,
  getPhaseRank,
  phases,
  standing,
  type World,
} from "./loops-match.ts";
import { roomOf } from "./loops-room.ts";

/** The result that both ways of computing must agree on: everything but the texts. */
export type Outcome = {
  readonly start: readonly StartStep[];
  readonly stop: readonly string[];
  readonly bindings: readonly (readonly [string, string])[];
  readonly updates: ScalingPlan["updates"];
  readonly waits: readonly { readonly group: string; readonly code: string; readonly demands: readonly string[] }[];
};

export function buildOutcome(plan: ScalingPlan): Outcome {
  return {
    start: plan.start,
    stop: plan.stop.map(({ name }) => name),
    bindings: [...plan.bindings],
    updates: plan.updates,
    waits: plan.waits.map(({ group, code, demands }) => ({ group, code, demands })),
  };
}

type Boot = { readonly demand: Demand | undefined; readonly spec: NodeSpec };
type Plan = {
  readonly group: string;
  readonly demands: readonly Demand[];
  readonly got: readonly (ScaledNode | FreeMachine | Boot | string)[];
};

/** Implements the rules of `computeScaling` by comparing each demand with each node: slow, simple, and written independently. */
export function computeByLoops(snapshot: ScalingSnapshot): Outcome {
  const { nowMs, limits } = snapshot;
  const nodes = snapshot.nodes
    .filter(({ spec, status }) => spec.terminate === undefined && phases.includes(status.phase))
    .sort((a, b) => order([+b.spec.spot - +a.spec.spot, getPhaseRank(a) - getPhaseRank(b), a.name < b.name ? -1 : 1]));
  const { plans, made, used } = bindAll(snapshot, nodes);

  const forDemand = new Map<string, Demand>();
  const complete = plans.filter((plan) => !hasFailed(plan));
  for (const { demands, got } of complete) {
    for (const [index, thing] of got.entries()) {
      const demand = demands[index];
      if (typeof thing === "object" && "status" in thing && demand) forDemand.set(thing.name, demand);
    }
  }
  const unbound = nodes.filter(({ name }) => !forDemand.has(name));
  const pools = [...snapshot.pools.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const idleSince = ({ status }: ScaledNode): number =>
    status.boundTo === undefined ? (status.idleSinceMs ?? nowMs) : nowMs;
  const surplus = pools.flatMap((pool) => surplusOf(pool, unbound, nowMs, idleSince));
  const waiting = plans
    .filter(hasFailed)
    .map(({ group, demands, got }) => ({ group, demands, isFull: got.includes("POOL_MAX") }));
  const afterFirstWaiting = plans.slice(plans.findIndex(hasFailed) + 1).filter((plan) => !hasFailed(plan));
  const displaceable = afterFirstWaiting.filter(hasMachine).flatMap(({ demands }) => demands);
  const world = { snapshot, nodes, kept: new Map(), used, made };
  const { ended, promised } = roomOf(world, { waiting, displaceable }, unbound, surplus);
  const spares = pools.flatMap((pool) => sparesOf(pool, unbound, snapshot, promised));
  const units = [
    ...complete.map(({ got }) => got.filter((thing): thing is Boot => typeof thing === "object" && "demand" in thing)),
    ...spares.map((spare) => [spare]),
  ].filter((boots) => boots.length > 0);
  const chosen = ration(units, limits.bootsPerRound, snapshot.seed);
  const start = units
    .flat()
    .filter((boot) => chosen.has(boot))
    .map(({ demand, spec }, index) => ({
      name: `${spec.pool}-${snapshot.seed}-${index}`,
      spec,
      boundTo: demand?.name,
      because: demand === undefined ? ("STANDBY" as const) : ("DEMAND" as const),
    }));

  return {
    start,
    stop: [...surplus, ...ended, ...nodes.filter(({ spec }) => !snapshot.pools.has(spec.pool)).map(({ name }) => name)],
    bindings: complete.flatMap(({ demands, got }) =>
      demands.flatMap((demand, index) => {
        const thing = got[index];
        if (typeof thing !== "object") return [];
        const name = "name" in thing ? thing.name : start.find(({ boundTo }) => boundTo === demand.name)?.name;
        return name === undefined ? [] : [[demand.name, name] as const];
      }),
    ),
    updates: nodes
      .map((node) => {
        const boundTo = forDemand.get(node.name)?.name;
        return { node, name: node.name, boundTo, idleSinceMs: boundTo === undefined ? idleSince(node) : undefined };
      })
      .filter(
        ({ node, boundTo, idleSinceMs }) => boundTo !== node.status.boundTo || idleSinceMs !== node.status.idleSinceMs,
      )
      .map(({ name, boundTo, idleSinceMs }) => ({ name, boundTo, idleSinceMs }))
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
    waits: plans.flatMap((plan) => waitOf(plan, chosen)),
  };
}

function bindAll(
  snapshot: ScalingSnapshot,
  nodes: readonly ScaledNode[],
): { plans: Plan[]; made: Map<string, number>; used: World["used"] } {
  const demands = snapshot.demands
    .filter(({ pool }) => snapshot.pools.has(pool))
    .sort((a, b) =>
      order([
        +(a.zone === undefined) - +(b.zone === undefined),
        a.createdAtMs - b.createdAtMs,
        a.name < b.name ? -1 : 1,
      ]),
    );
  const names = [...new Set(demands.map(({ group, name }) => group ?? name))];
  const groups = new Map(names.map((name) => [name, [] as Demand[]]));
  for (const demand of demands) groups.get(demand.group ?? demand.name)?.push(demand);

  const givenUp = new Set<string>();
  for (;;) {
    const kept = new Map<Demand, ScaledNode>();
    for (const node of nodes) {
      for (const demand of demands) {
        if (node.status.boundTo !== demand.name || givenUp.has(demand.group ?? demand.name) || kept.has(demand))
          continue;
        if (fits(node, demand, snapshot, [true, false])) kept.set(demand, node);
      }
    }
    const used = new Set<ScaledNode | FreeMachine>(kept.values());
    const made = new Map<string, number>();
    const plans = names.map((name) => bindGroup(name, groups.get(name) ?? [], { snapshot, nodes, kept, used, made }));
    const failed = plans.filter((plan) => hasFailed(plan) && plan.demands.some((demand) => kept.has(demand)));
    for (const { group } of failed) givenUp.add(group);
    if (failed.length === 0) return { plans, made, used };
  }
}

function hasFailed({ got }: Plan): boolean {
  return got.some((thing) => typeof thing === "string");
}

function hasMachine({ got }: Plan): boolean {
  return got.some((thing) => typeof thing === "object" && "name" in thing && !("status" in thing));
}

function bindGroup(group: string, demands: readonly Demand[], world: World): Plan {
  const got: (ScaledNode | FreeMachine | Boot | string)[] = [];
  for (const demand of demands) {
    const kept = world.kept.get(demand);
    const thing = kept ?? findMachine(demand, world) ?? findNode(demand, world) ?? bootFor(demand, world);
    if (typeof thing === "object" && "name" in thing) world.used.add(thing);
    got.push(thing);
  }
  const plan = { group, demands, got };
  if (!hasFailed(plan)) return plan;
  for (const [index, thing] of got.entries()) {
    const demand = demands[index];
    if (typeof thing === "string" || demand === undefined || world.kept.has(demand)) continue;
    if ("name" in thing) world.used.delete(thing);
    else world.made.set(demand.pool, (world.made.get(demand.pool) ?? 0) - 1);
  }
  return plan;
}

function bootFor(demand: Demand, { snapshot, made }: World): Boot | string {
  const pool = snapshot.pools.get(demand.pool);
  const { instance } = chooseInstance(demand, snapshot);
  if (pool === undefined || instance === undefined) return "UNAVAILABLE";
  const alive = snapshot.nodes.filter(({ spec, status }) => spec.pool === pool.name && status.phase !== "Terminated");
  const count = made.get(pool.name) ?? 0;
  if (alive.length + count >= pool.max) return "POOL_MAX";
  made.set(pool.name, count + 1);
  const { gpus, privateIpOnly } = demand;
  return {
    demand,
    spec: specOf(pool, snapshot, { ...instance, gpus, privateIpOnly, volumeGib: demand.volumeGib ?? pool.volumeGib }),
  };
}

function specOf(
  pool: PoolPolicy,
  snapshot: ScalingSnapshot,
  asked: Pick<NodeSpec, "instanceType" | "spot" | "zone" | "gpus" | "privateIpOnly" | "volumeGib">,
): NodeSpec {
  const { name, provider, instanceTypes } = pool;
  const type = instanceTypes.find((each) => each.name === asked.instanceType);
  const pricePerHourMicros = asked.spot ? type?.spotPricePerHourMicros : type?.pricePerHourMicros;
  const bootImage = snapshot.bootImages.get(name) ?? "";
  return { ...asked, pool: name, provider, bootImage, terminate: undefined, pricePerHourMicros };
}

function sparesOf(
  pool: PoolPolicy,
  unbound: readonly ScaledNode[],
  snapshot: ScalingSnapshot,
  made: Map<string, number>,
): Boot[] {
  const spares: Boot[] = [];
  for (const kind of kindsOfStandby(pool)) {
    const missing = kind.count - standing(unbound, pool, kind).length;
    const policy = kind.spot ? ("Always" as const) : ("Never" as const);
    const wish = { pool: pool.name, instanceTypes: [kind.instanceType], spot: policy, zone: undefined };
    const { instance } = chooseInstance(wish, snapshot);
    if (instance === undefined) continue;
    const alive = snapshot.nodes.filter(({ spec, status }) => spec.pool === pool.name && status.phase !== "Terminated");
    for (let index = 0; index < missing; index += 1) {
      if (alive.length + (made.get(pool.name) ?? 0) + spares.length >= pool.max) break;
      const gpus = pool.instanceTypes.find(({ name }) => name === kind.instanceType)?.gpus ?? 0;
      const { privateIpOnly, volumeGib } = pool;
      spares.push({ demand: undefined, spec: specOf(pool, snapshot, { ...instance, gpus, privateIpOnly, volumeGib }) });
    }
  }
  return spares;
}

function surplusOf(
  pool: PoolPolicy,
  unbound: readonly ScaledNode[],
  nowMs: number,
  idleSince: (node: ScaledNode) => number,
): string[] {
  let idle = unbound
    .filter((node) => node.spec.pool === pool.name && nowMs - idleSince(node) >= pool.idleMs)
    .sort((a, b) => order([b.status.createdAtMs - a.status.createdAtMs, a.name < b.name ? 1 : -1]));
  for (const kind of kindsOfStandby(pool)) {
    const oldest = standing(idle, pool, kind).reverse().slice(0, kind.count);
    idle = idle.filter((node) => !oldest.includes(node));
  }
  return idle.map(({ name }) => name);
}

/** Takes one unit of each kind in turn, beginning with the kind that the seed selects, as in `planBoots`. */
function ration(units: readonly (readonly Boot[])[], limit: number, seed: string): ReadonlySet<Boot> {
  const waiting = new Map<string, (readonly Boot[])[]>();
  for (const unit of units) {
    const kind = JSON.stringify([
      unit[0]?.demand === undefined,
      [...new Set(unit.map(({ spec }) => JSON.stringify(spec)))].sort(),
    ]);
    waiting.set(kind, [...(waiting.get(kind) ?? []), unit]);
  }
  const turns = [...waiting.values()];
  let state = 0x811c9dc5;
  for (const letter of seed) state = Math.imul(state ^ letter.charCodeAt(0), 0x01000193) >>> 0;
  for (let turn = 0; turns.length > 0 && turn < state % waiting.size; turn += 1) turns.push(...turns.splice(0, 1));
  const chosen = new Set<Boot>();
  for (let turn = 0; turns.some((queue) => queue.length > 0); turn += 1) {
    const queue = turns[turn % turns.length] ?? [];
    for (let unit = queue.shift(); unit !== undefined; unit = queue.shift()) {
      const left = limit - chosen.size;
      if (left === 0 || (unit.length > left && chosen.size > 0)) continue;
      for (const boot of unit.slice(0, left)) chosen.add(boot);
      break;
    }
  }
  return chosen;
}

function waitOf({ group, demands, got }: Plan, chosen: ReadonlySet<Boot>): Outcome["waits"] {
  const names = (test: (thing: Plan["got"][number]) => boolean): string[] =>
    demands.filter((_, index) => test(got[index] ?? "")).map(({ name }) => name);
  const lacks = got.filter((thing) => typeof thing === "string");
  const [first] = lacks;
  if (first !== undefined) {
    const short = lacks.every((lack) => lack === "UNAVAILABLE");
    const code = lacks.length < got.length && !short ? "GANG_INCOMPLETE" : first;
    return [{ group, code, demands: demands.map(({ name }) => name) }];
  }
  const late = names((thing) => typeof thing === "object" && "demand" in thing && !chosen.has(thing));
  if (late.length > 0) return [{ group, code: "RATE_LIMITED", demands: late }];
  const booting = names(
    (thing) =>
      typeof thing === "object" && ("demand" in thing || ("status" in thing && thing.status.phase !== "Available")),
  );
  return booting.length > 0 ? [{ group, code: "BOOTING", demands: booting }] : [];
}
