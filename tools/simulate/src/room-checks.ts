import type { V1Pod } from "@kubernetes/client-node";
import { findExcess } from "@muster/chaos/judge-room";
import { canOccupy } from "@muster/names";
import { evolveLedger, type Ledger, type LedgerEvent } from "@muster/reservation-manager/ledger";
import type { NodeFacts } from "@muster/reservation-manager/machines";
import type { Reservation } from "@muster/reservation-manager/reservation";
import { parseAmounts, sumUse, type Amounts } from "@muster/resources";
import { isAgent, listPodsOnNode } from "./foreign-pods.ts";
import { getOwner } from "./kubelets.ts";
import { PART_KIND, type PartOwners } from "./part-owners.ts";
import { sumPodUse } from "./pod-room.ts";
import type { CheckDecision } from "./replicas/reservation-manager.ts";
import { MAX_MARK_AGE_MS, violateInto, type Violate, type Violation } from "./step-checks.ts";
import type { World } from "./world.ts";

const ROOM_RULE = "grants and other use exceed no node at the time of a grant";
const WHOLE_RULE = "an exclusive machine has one owner and no foreign use at the time of its grant";
const DOMAIN_RULE = "all machines of a gang with a topology have one value of its label";

export function checkDecisions(world: World, violations: Violation[]): CheckDecision {
  const violate = violateInto(world, violations);
  return (ledger, events, { nodes }) => {
    if (!events.some(({ kind }) => kind === "granted")) return;
    const known = new Map(nodes.map((facts) => [facts.name, facts]));
    let now = ledger;
    for (const event of events) {
      now = evolveLedger(now, event);
      if (event.kind !== "granted") continue;
      const outside = outsideDomain(now, event, known);
      if (outside !== undefined) violate(undefined, DOMAIN_RULE, `r-${event.sequence}: ${outside}`);
      for (const { node, shared } of event.machines) {
        const facts = known.get(node);
        const found = facts === undefined ? "it is unknown" : findProblem(now, facts, shared === undefined);
        if (found !== undefined)
          violate(undefined, shared === undefined ? WHOLE_RULE : ROOM_RULE, `r-${event.sequence} on ${node}: ${found}`);
      }
    }
  };
}

/** The first machine of the grant that is not in the domain of its topology, with its label. */
function outsideDomain(
  ledger: Ledger,
  { sequence, machines, domain }: Extract<LedgerEvent, { kind: "granted" }>,
  nodes: ReadonlyMap<string, NodeFacts>,
): string | undefined {
  const topology = ledger.reservations.get(sequence)?.topology;
  if (topology === undefined) return undefined;
  const valueOf = (node: string): string | undefined => nodes.get(node)?.labels[topology];
  const outside = machines.find(({ node }) => domain === undefined || valueOf(node) !== domain);
  return outside && `${outside.node} of ${valueOf(outside.node) ?? "no value"}`;
}

/** Returns the rule that this grant of the node violates; undefined: none. */
function findProblem(ledger: Ledger, facts: NodeFacts, isWhole: boolean): string | undefined {
  const { name, ready, schedulable, foreign, occupants, ownerUses, allocatable } = facts;
  const holder = ledger.holders.get(name);
  const parts = ledger.parts.get(name) ?? [];
  const holders = [...parts.map(({ sequence }) => sequence), ...(holder === undefined ? [] : [holder])].map(
    (sequence) => ledger.reservations.get(sequence)?.owner,
  );
  const isHolder = (owner: { kind: string; id: string }): boolean =>
    holders.some((each) => each !== undefined && canOccupy(owner, each));
  const others = ownerUses.filter(({ owner }) => !isHolder(owner));
  if (!ready || !schedulable) return "it is not ready and schedulable";
  const occupant = occupants.find((owner) => !isHolder(owner));
  if (occupant !== undefined) return `it has a pod of ${occupant.kind} ${occupant.id}`;
  if (isWhole && parts.length > 0) return `it has ${parts.length} granted parts`;
  if (isWhole && foreign.pods + others.length > 0)
    return `it has ${foreign.pods} foreign pods, ${others.length} owners`;
  if (isWhole) return undefined;
  if (holder !== undefined) return `r-${holder} holds all of it`;
  const uses = [foreign, ...others.map(({ use }) => use)].map(({ requests, pods }) => sumUse(requests, pods));
  return findExcess(allocatable ?? new Map(), [...parts.map(({ requests }) => sumUse(requests)), ...uses]);
}

/** Follows the grants in the log of the ledger. */
export type RoomWatch = { readonly grantedNodes: () => readonly string[] };

/**
 * Checks each grant against the pods of the cluster that exist since its start, which every ledger knows, and that only their owners end reservations and pods.
 */
export function watchRoom(
  world: World,
  violations: Violation[],
  known: { readonly residents: () => ReadonlySet<string>; readonly owners: () => PartOwners | undefined },
): RoomWatch {
  const violate = violateInto(world, violations);
  const reservations = new Map<number, Reservation>();
  const granted = new Map<number, Extract<LedgerEvent, { kind: "granted" }>["machines"]>();
  world.ledger.onEntry.push((events) => {
    for (const event of events) {
      if (event.kind === "requested") reservations.set(event.reservation.sequence, event.reservation);
      if (event.kind === "granted") {
        granted.set(event.sequence, event.machines);
        for (const node of new Set(event.machines.map((machine) => machine.node)))
          checkNode(world, node, [...granted.values()].flat(), known.residents(), violate);
      }
      if (event.kind === "released") {
        const owner = reservations.get(event.sequence)?.owner;
        granted.delete(event.sequence);
        if (owner?.kind === PART_KIND && known.owners()?.ending.has(owner.id) === false)
          violate(owner.id, "only its owner ends a reservation", `r-${event.sequence} is released`);
      }
    }
  });
  watchDeletions(world, known.owners, violate);
  return { grantedNodes: () => [...new Set([...granted.values()].flat().map(({ node }) => node))] };
}

function checkNode(
  world: World,
  node: string,
  machines: readonly { readonly node: string; readonly shared?: Amounts }[],
  residents: ReadonlySet<string>,
  violate: Violate,
): void {
  const allocatable = world.cluster.nodes.get(node)?.status?.allocatable;
  if (allocatable === undefined) return;
  const held = machines.filter((machine) => machine.node === node);
  const parts = held.flatMap(({ shared }) => (shared === undefined ? [] : [sumUse(shared)]));
  const pods = listPodsOnNode(world, node);
  const foreign = pods.filter(({ metadata }) => residents.has(metadata?.uid ?? ""));
  const isWhole = parts.length < held.length;
  if (isWhole && (held.length > 1 || foreign.length > 0))
    violate(undefined, WHOLE_RULE, `${node} has ${held.length} grants and ${foreign.length} foreign pods`);
  // A node that has just joined is granted before its DaemonSet pods exist, or are known.
  const isKnown = ({ metadata }: V1Pod): boolean =>
    world.time.nowMs - Number(metadata?.creationTimestamp ?? world.time.nowMs) > MAX_MARK_AGE_MS;
  const agents = pods.filter(isAgent).filter(isKnown);
  const uses = [...foreign, ...agents].map(sumPodUse);
  const found = isWhole ? undefined : findExcess(parseAmounts(allocatable), [...parts, ...uses]);
  if (found !== undefined) violate(undefined, ROOM_RULE, `${node}, ${found}`);
}

/** A placed pod of an owner of parts stays until its owner deletes it or its machine fails. */
function watchDeletions(world: World, owners: () => PartOwners | undefined, violate: Violate): void {
  world.cluster.listeners.add(({ kind, name, before, after }) => {
    const object = after ?? before;
    if (kind !== "pods" || object?.metadata?.labels === undefined || after?.metadata?.deletionTimestamp === undefined)
      return;
    const owner = getOwner(object);
    const plan = owners()?.plans.find(({ id }) => id === owner);
    if (plan !== undefined && owners()?.ending.has(owner) === false)
      violate(owner, "foreign use ends no work", `${name} is being deleted`);
  });
}
