import type { Random } from "@muster/chaos/random";
import type { Preemptible, Queue, Quota } from "@muster/reservation-manager/queue";

/** No queue has this name. */
export const MISSING = "missing";
/** Share of seeds with preemption; in the others, only quota and machines decide. */
const PREEMPTING_SEEDS = 0.7;
const MAX_QUEUES = 6;
const MAX_LEVELS = 3;

type Policy = Pick<Queue, "weightMilli" | "strategy" | "stopPolicy" | "maxPriority" | "problem">;

/** Draws queues of one or two trees of at most three levels, parents first: q0, q1, ... */
export function drawForest(random: Random): readonly Queue[] {
  const count = random.integer(2, MAX_QUEUES);
  const hasTwoRoots = random.chance(0.2);
  const placed: { readonly name: string; readonly parent: string | undefined; readonly level: number }[] = [];
  for (let index = 0; index < count; index += 1) {
    const [first, ...others] = placed.filter(({ level }) => level < MAX_LEVELS);
    const isRoot = first === undefined || (hasTwoRoots && index === 1);
    const parent = isRoot ? undefined : random.pick([first, ...others]);
    placed.push({ name: `q${index}`, parent: parent?.name, level: (parent?.level ?? 0) + 1 });
  }
  return placed.map(({ name, parent }) => {
    const isInner = placed.some((other) => other.parent === name);
    const quotas = isInner && random.chance(0.6) ? new Map<string, Quota>() : drawQuotas(random);
    return { name, ...(parent !== undefined && { parent }), quotas, ...drawPolicy(random), stopPolicy: "None" };
  });
}

/** The work that requests of a queue may preempt, and the work of the queue that others may preempt. */
type Preempting = Pick<
  Queue,
  ("reclaim" | "fairSharing" | "withinQueue" | "whileBorrowing") | ("minRunTimeMs" | "permitsNonPreemptible")
>;

/** Draws whether the queues of a seed preempt, and then the policies of each state of a queue. Uses a separate random source. */
export function drawPreempting(random: Random): (queue: Queue) => Queue {
  if (!random.chance(PREEMPTING_SEEDS)) return (queue) => queue;
  const which = <Field extends string>(field: Field, never: number): { readonly [Each in Field]?: Preemptible } => {
    if (random.chance(never)) return {};
    return { [field]: random.pick(["LowerPriority", "Any", "Any"]) } as { readonly [Each in Field]: Preemptible };
  };
  const draw = (): Preempting => ({
    ...which("reclaim", 0.3),
    ...which("fairSharing", 0.5),
    ...which("withinQueue", 0.4),
    ...(random.chance(0.3) && { whileBorrowing: random.pick([-1, 0, 1]) }),
    ...(random.chance(0.3) && { minRunTimeMs: random.integer(500, 10_000) }),
    ...(random.chance(0.4) && { permitsNonPreemptible: true }),
  });
  return (queue) => ({ ...queue, ...draw() });
}

/** Draws another state of the queue: other quotas, another policy, another parent. */
export function drawEdit(random: Random, queue: Queue, names: readonly string[]): Queue {
  const { parent, problem: _problem, ...rest } = queue;
  const kept = { ...rest, ...(parent !== undefined && { parent }) };
  switch (random.weighted({ quotas: 5, lower: 3, policy: 3, move: 2, hold: 2 })) {
    case "quotas":
      return { ...kept, quotas: drawQuotas(random) };
    case "lower":
      return { ...kept, quotas: new Map([...queue.quotas].map(([pair, quota]) => [pair, halve(quota)])) };
    case "policy": {
      const { maxPriority: _max, ...others } = kept;
      return { ...others, ...drawPolicy(random), ...(random.chance(0.05) && { problem: "it cannot be read" }) };
    }
    case "move": {
      const other = random.pick([MISSING, ...names]);
      const isBroken = (other === MISSING || other === queue.name) && !random.chance(0.2);
      return random.chance(0.3) || isBroken ? rest : { ...rest, parent: other };
    }
    case "hold":
      return { ...kept, stopPolicy: random.pick(["Hold", "HoldAndDrain"]) };
  }
}

function halve({ nominal, ...limits }: Quota): Quota {
  return { ...limits, nominal: Math.floor(nominal / 2) };
}

function drawPolicy(random: Random): Policy {
  const maxPriority = random.chance(0.2) ? 0 : undefined;
  return {
    weightMilli: random.pick([0, 500, 1000, 1000, 1000, 2000]),
    strategy: random.chance(0.3) ? "StrictFIFO" : "BestEffortFIFO",
    stopPolicy: "None",
    ...(maxPriority !== undefined && { maxPriority }),
  };
}

/** Usually draws cpu of pool a, so that queues compete. Without memory, only requests of cpu are possible. */
function drawQuotas(random: Random): Queue["quotas"] {
  if (random.chance(0.2)) return new Map();
  const quotas = new Map<string, Quota>([["a cpu", drawQuota(random, 1)]]);
  if (random.chance(0.8)) quotas.set("a memory", drawQuota(random, 2));
  if (random.chance(0.6)) quotas.set("b cpu", drawQuota(random, 1));
  if (random.chance(0.5)) quotas.set("b memory", drawQuota(random, 2));
  if (random.chance(0.1)) quotas.set("a pods", drawQuota(random, 1));
  return quotas;
}

function drawQuota(random: Random, factor: number): Quota {
  return {
    nominal: factor * random.pick([0, 2, 4, 6, 8, 8, 12, 16, 16]),
    ...(random.chance(0.2) && { borrowingLimit: factor * random.integer(0, 8) }),
    ...(random.chance(0.25) && { lendingLimit: factor * random.integer(0, 6) }),
  };
}
