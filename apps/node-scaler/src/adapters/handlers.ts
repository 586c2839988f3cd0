import { computePageLimit, type Handlers } from "@muster/bus";
import { throwFault } from "@muster/faults";
import type { NodeService } from "@muster/proto";
import { buildPoolTroubles } from "../domain/build-pool-troubles.ts";
import { explainDemand } from "../domain/explain-demand.ts";
import { isWithdrawable, type ScaledNode } from "../domain/node.ts";
import { buildTermination } from "../domain/plan-heartbeat.ts";
import type { LoopReport } from "../loops.ts";
import type { Scaler } from "../scaler.ts";
import { toWireNode, toWirePool } from "./messages.ts";

/** Limits the nodes in one page, and the bindings in one dump. */
const MAX_PAGE_SIZE = 500;
/** Limits the length of the caller's name in a record. */
const MAX_CALLER_CHARS = 100;
/** Limits the attempts of an order against concurrent writes. */
const MAX_ATTEMPTS = 5;

/** Creates the methods of NodeService, which only the leader serves. */
export function makeHandlers(
  scaler: Scaler,
  { leader, loops }: { readonly leader: string; readonly loops: readonly LoopReport[] },
): Handlers<typeof NodeService> {
  const { memory, records, term, now } = scaler;
  const troubles = () => buildPoolTroubles({ ...memory, policies: scaler.policies, nowMs: now() });
  return {
    listNodes: ({ pool, name: only, limit, continue: after }) => {
      const size = computePageLimit(limit, MAX_PAGE_SIZE);
      const nodes = records
        .list()
        .filter(({ name, spec }) => name > after && isAsked(pool, spec.pool) && isAsked(only, name));
      const page = nodes.slice(0, size);
      return Promise.resolve({
        nodes: page.map(toWireNode),
        continue: nodes.length > size ? (page.at(-1)?.name ?? "") : "",
      });
    },
    dumpNodes: () => {
      const bindings = [...(memory.plan?.bindings ?? [])].map(([demand, node]) => ({ demand, node }));
      return Promise.resolve({
        leader,
        term,
        loops: loops.map(({ error, ...report }) => ({
          ...report,
          meanDurationMs: Math.round(report.meanDurationMs),
          lastStartedAtMs: Math.round(report.lastStartedAtMs),
          lastDurationMs: Math.round(report.lastDurationMs),
          error,
        })),
        unavailable: memory.unavailable,
        pools: (memory.plan?.poolScaling ?? []).map((pool) => toWirePool(pool, now())),
        nodes: records.list().length,
        bindings: bindings.slice(0, MAX_PAGE_SIZE),
        bindingsMore: Math.max(0, bindings.length - MAX_PAGE_SIZE),
        troubles: troubles(),
        undecided: describeUndecided(scaler) ?? "",
      });
    },
    explainDemand: ({ owner }) => {
      const { kind, id } = { kind: owner?.kind ?? "", id: owner?.id ?? "" };
      const plan = memory.plan ?? { waits: [], bindings: new Map<string, string>() };
      return Promise.resolve(explainDemand({ kind, id }, plan, records.list(), troubles()));
    },
    terminateNode: async (request) => ({ node: toWireNode(await terminateNode(scaler, request)) }),
  };
}

/** Describes why this leader has no plan yet; undefined if a plan exists. */
function describeUndecided({ memory, cluster }: Scaler): string | undefined {
  if (memory.plan !== undefined) return undefined;
  if (memory.hasObserved) return "the first round that decides has not ended";
  return cluster.nodes().known
    ? "the ledger has not sent its machines to this leader"
    : "the watcher has not reported lately which nodes exist";
}

type Order = { readonly name: string; readonly requestId: string; readonly requestedBy: string };

/** Resolves once the record has the order, or the node ends for another permanent reason. */
async function terminateNode(
  { records, policies, now }: Scaler,
  { name, requestId, requestedBy }: Order,
): Promise<ScaledNode> {
  const who = requestedBy === "" ? "an unnamed caller" : requestedBy.slice(0, MAX_CALLER_CHARS);
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
    const node = records.get(name) ?? throwFault({ code: "not_found", kind: "node", id: name });
    const { terminate: ordered } = node.spec;
    const isEnding = node.status.phase === "Terminating" || node.status.phase === "Terminated";
    if (isEnding || (ordered !== undefined && !isWithdrawable(ordered.code))) return node;
    const order = { code: "REQUESTED", message: `${who} asked for it`, requestId } as const;
    const terminate = buildTermination(order, node, policies, now());
    const changed = await records.changeNode({ node: name, expected: node.status.phase, spec: { terminate } });
    if (changed !== undefined) return changed;
  }
  return throwFault({
    code: "unavailable",
    dependency: `the record of ${name}, which keeps changing,`,
    retryAfterMs: 0,
  });
}

/** Whether the filter selects the value; an empty filter selects every value. */
function isAsked(filter: string, value: string): boolean {
  return filter === "" || filter === value;
}
