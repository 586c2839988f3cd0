import type { Handlers } from "@muster/bus";
import { throwFault } from "@muster/faults";
import type { NodeService } from "@muster/proto";
import { buildPoolTroubles } from "../domain/build-pool-troubles.ts";
import { explainDemand } from "../domain/explain-demand.ts";
import { buildTermination } from "../domain/plan-heartbeat.ts";
import type { LoopReport } from "../loops.ts";
import type { Scaler } from "../scaler.ts";
import { toWireNode, toWirePool, toWireTrouble, toWireUnavailable } from "./messages.ts";

/** Nodes in one page, and bindings in one dump. */
const PAGE_MAX = 500;

/** The methods of NodeService, answered by the one scaler that leads. */
export function makeHandlers(
  scaler: Scaler,
  { leader, loops }: { readonly leader: string; readonly loops: readonly LoopReport[] },
): Handlers<typeof NodeService> {
  const { memory, records, policies, term, now } = scaler;
  return {
    listNodes: ({ pool, limit, continue: after }) => {
      const size = limit === 0 ? PAGE_MAX : Math.min(limit, PAGE_MAX);
      const nodes = records.list().filter(({ name, spec }) => name > after && (pool === "" || spec.pool === pool));
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
          error: error ?? "",
        })),
        unavailable: memory.unavailable.map(toWireUnavailable),
        pools: (memory.plan?.poolScaling ?? []).map((pool) => toWirePool(pool, now())),
        nodes: records.list().length,
        bindings: bindings.slice(0, PAGE_MAX),
        bindingsMore: Math.max(0, bindings.length - PAGE_MAX),
        troubles: buildPoolTroubles({ ...memory, policies, nowMs: now() }).map(toWireTrouble),
      });
    },
    explainDemand: ({ owner }) => {
      const { kind, id } = { kind: owner?.kind ?? "", id: owner?.id ?? "" };
      const explained = explainDemand({ kind, id }, memory.plan?.waits ?? [], records.list());
      const { known, code, message, booting } = explained;
      return Promise.resolve({ known, code: code ?? "", message, booting: [...booting] });
    },
    terminateNode: async ({ name }) => {
      const node = records.get(name) ?? throwFault({ code: "not_found", kind: "node", id: name });
      const terminate = buildTermination(
        { code: "REQUESTED", message: "somebody asked for it" },
        node,
        policies,
        now(),
      );
      const changed = await records.changeNode({ node: name, expected: node.status.phase, spec: { terminate } });
      return { node: toWireNode(changed ?? records.get(name) ?? node) };
    },
  };
}
