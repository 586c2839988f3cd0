import { describePassed } from "./describe-duration.ts";
import { describeShared } from "./describe-full.ts";
import { getBootingSinceMs, getPhaseRank, type ComputedNode, type FreeMachine } from "./fit.ts";
import type { NewNode, NodeSpec } from "./node.ts";
import type { DemandGroup, GroupPlan } from "./plan-bindings.ts";

/** The maximum number of nodes with pods in a message. */
const MAX_NAMED = 3;

/** BOOTING means that enough nodes are booting. The other codes state why nodes are missing. */
export type WaitCode =
  | "POOL_MAX"
  | "UNAVAILABLE"
  | "ZONE_UNKNOWN"
  | "TOO_LARGE"
  | "NODE_SELECTION"
  | "TOPOLOGY"
  | "RATE_LIMITED"
  | "GANG_INCOMPLETE"
  | "BOOTING";

/** Why a group lacks ready nodes. */
export type GroupWait = {
  readonly group: string;
  readonly code: WaitCode;
  /** A text for people, with numbers. */
  readonly message: string;
  /** The waiting demands, in their order. */
  readonly demands: readonly string[];
  /** Pools of the waiting demands. */
  readonly pools: readonly string[];
};

type WaitFacts = { readonly bootsPerRound: number; readonly nowMs: number };

/** Returns undefined if all of the group's nodes are ready. `started` are the boots of this round. */
export function describeWait(plan: GroupPlan, started: ReadonlySet<NewNode>, facts: WaitFacts): GroupWait | undefined {
  if (plan.lacks.length > 0) return describeLack(plan);
  const made = [...plan.boots.map((node) => [node.boundTo ?? "", node] as const), ...plan.joins];
  return made.every(([, node]) => started.has(node))
    ? describeBoots(plan, made, facts.nowMs)
    : describeRation(plan, made, started, facts);
}

/** The waits that no shortage explains: the demand itself does not suit the pool. */
export const IMPOSSIBLE = ["TOO_LARGE", "NODE_SELECTION", "TOPOLOGY"] as const;

/** Demands with the new nodes that are for them. */
type Made = readonly (readonly [string, NewNode])[];

function describeLack({ group, lacks }: GroupPlan): GroupWait | undefined {
  const [first] = lacks;
  if (first === undefined) return undefined;
  const { demands } = group;
  const { topology } = first.demand;
  const domain = topology?.value === undefined ? "" : `, in ${topology.key}=${topology.value}`;
  const reasons = [...new Set(lacks.map(({ because }) => because))].join("; ") + domain;
  const got = demands.length - lacks.length;
  const names = demands.map(({ name }) => name);
  const impossible = IMPOSSIBLE.find((code) => lacks.some((lack) => lack.code === code));
  const code = impossible ?? first.code;
  if (got === 0) return buildWait(group, code, `${count(lacks.length, "node")} needed: ${reasons}`, names);
  const message = `${got} of ${demands.length} nodes that are needed together are available: ${reasons}`;
  // The owner of the gang's machines must know that time alone does not complete it.
  const isShort = lacks.every((lack) => lack.code === "UNAVAILABLE");
  return buildWait(group, impossible !== undefined || isShort ? code : "GANG_INCOMPLETE", message, names);
}

function describeRation(
  { group }: GroupPlan,
  made: Made,
  started: ReadonlySet<NewNode>,
  { bootsPerRound }: WaitFacts,
): GroupWait {
  const waiting = made.filter(([, node]) => !started.has(node)).map(([demand]) => demand);
  const nodes = new Set(made.map(([, node]) => node));
  const all = nodes.size;
  const booted = [...nodes].filter((node) => started.has(node)).length;
  const message = `${booted} of ${count(all, "node")} begin to boot now: ${bootsPerRound} in a round at most, for all waiting demand`;
  return buildWait(group, "RATE_LIMITED", message, waiting);
}

function describeBoots(plan: GroupPlan, made: Made, nowMs: number): GroupWait | undefined {
  // A map is used, because several demands may share a node.
  const booting = new Map<ComputedNode | NewNode, { readonly spec: NodeSpec; readonly sinceMs: number }>();
  const waiting: string[] = [];
  for (const [demand, node] of plan.bound) {
    if (isReady(node)) continue;
    waiting.push(demand);
    booting.set(node, { spec: node.spec, sinceMs: getBootingSinceMs(node) });
  }
  for (const [demand, node] of made) {
    waiting.push(demand);
    booting.set(node, { spec: node.spec, sinceMs: nowMs });
  }
  if (booting.size === 0) return undefined;
  const byType = new Map<string, number>();
  for (const { spec } of booting.values()) byType.set(spec.instanceType, (byType.get(spec.instanceType) ?? 0) + 1);
  const types = [...byType].map(([type, number]) => `${count(number, "node")} of type ${type}`).join(", ");
  const sinceMs = Math.min(...[...booting.values()].map((boot) => boot.sinceMs));
  const shared = [...new Set(plan.bound.values())]
    .filter(({ sharedWith }) => sharedWith !== undefined)
    .map(describeShared);
  const beside =
    shared.length === 0
      ? ""
      : `; ${count(shared.length, "node")} ${shared.length === 1 ? "has" : "have"} pods that the ledger does not count: ` +
        shared.slice(0, MAX_NAMED).join(", ");
  return buildWait(
    plan.group,
    "BOOTING",
    `waiting for ${types}, booting for ${describePassed(nowMs - sinceMs)}${beside}`,
    waiting,
  );
}

function isReady(node: ComputedNode | FreeMachine): node is FreeMachine {
  return !("status" in node) || getPhaseRank(node) === 0;
}

function buildWait(group: DemandGroup, code: WaitCode, message: string, waiting: readonly string[]): GroupWait {
  const names = new Set(waiting);
  const demands = group.demands.filter(({ name }) => names.has(name));
  return {
    group: group.name,
    code,
    message,
    demands: demands.map(({ name }) => name),
    pools: [...new Set(demands.map(({ pool }) => pool))],
  };
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
