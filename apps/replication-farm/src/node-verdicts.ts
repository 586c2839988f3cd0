import { throwFault } from "@muster/faults";
import type { World } from "./adapters/views.ts";
import { explainNodes, type NodeVerdict } from "./domain/explain-nodes.ts";
import type { ReplicaSet } from "./domain/replica-set.ts";

type Deps = { readonly world: Pick<World, "setsOf" | "observedNodes" | "nodesFor" | "occupied" | "podsOf"> };

/** A verdict for each node; undefined while nodes are unknown. */
export function explainSetNodes({ world }: Deps, set: ReplicaSet): NodeVerdict[] | undefined {
  const sights = world.observedNodes();
  const nodes = world.nodesFor(set);
  if (sights === undefined || nodes === undefined) return undefined;
  const { podId } = set.spec;
  const own = world.podsOf(set.name);
  const taken = new Map([
    ...[...world.occupied(podId)].filter(([, pod]) => !own.has(pod)),
    ...world
      .setsOf(podId)
      .filter(({ name }) => name !== set.name)
      .flatMap(({ name, placements }) => placements.map(({ node }): [string, string] => [node, name])),
  ]);
  return explainNodes(set, sights, nodes, taken);
}

/** Explains why the set cannot get a placement on this node; undefined: the node is free. Throws FaultError unavailable while nodes are unknown. */
export function explainNotFree(deps: Deps, set: ReplicaSet, node: string): string | undefined {
  if (set.spec.pool !== undefined) return `the ledger chooses among the machines of pool ${set.spec.pool}`;
  const verdicts = explainSetNodes(deps, set);
  if (verdicts === undefined) return throwFault({ code: "unavailable", dependency: "watcher", retryAfterMs: 1000 });
  const found = verdicts.find((verdict) => verdict.node === node);
  if (found?.code === "FREE") return undefined;
  if (found === undefined) return "there is no such node";
  return found.code === "REPLICA" ? `${set.name} has a replica there` : found.message;
}
