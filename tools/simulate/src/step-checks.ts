import { getWorkOfOwner } from "@muster/chaos/observed";
import type { LedgerEvent } from "@muster/reservation-manager/ledger";
import type { Reservation } from "@muster/reservation-manager/reservation";
import type { SessionRecord } from "@muster/session-controller/session";
import { bucketKeys, labels } from "@muster/proto";
import { listAcceptedPools } from "@muster/resources";
import { MAX_CLOCK_SKEW_MS } from "./clocks.ts";
import { FREEZE_MS } from "./nemesis.ts";
import { NODES_FRESH_MS } from "./replicas/reservation-manager.ts";
import { isExclusive, isOver, getNodeName } from "./kubelets.ts";
import { decodeRecord } from "./users.ts";
import type { World } from "./world.ts";

/** A violated rule, and the time of the violation. */
export type Violation = {
  readonly atMs: number;
  /** Undefined where the rule concerns the whole system. */
  readonly session: string | undefined;
  readonly rule: string;
  readonly found: string;
};

/** A fact of the ledger's log, as `judgeRun` reads it. */
export type LedgerGrant = {
  readonly reservation: Reservation;
  readonly nodes: readonly string[];
  readonly atMs: number;
};

/** Checks the rules at every write. */
export function watchSteps(world: World, violations: Violation[]): void {
  const violate = violateInto(world, violations);
  const started = watchStarts(world);
  watchRecords(world, started, violate);
  watchLedger(world, violate);
  watchPods(world, started, violate);
}

/** A leader trusts a mark for this time by its own clock, and may be frozen between its decision and its write. */
export const MAX_MARK_AGE_MS = NODES_FRESH_MS + MAX_CLOCK_SKEW_MS + FREEZE_MS.max;

export type Violate = (session: string | undefined, rule: string, found: string) => void;

export function violateInto({ trace, time }: World, violations: Violation[]): Violate {
  return (session, rule, found) => {
    trace.note("check", `VIOLATION ${session ?? ""} ${rule}: ${found}`);
    violations.push({ atMs: time.nowMs, session, rule, found });
  };
}

/** Uids of the pods in which a container has started. */
function watchStarts({ cluster }: World): ReadonlySet<string> {
  const started = new Set<string>();
  cluster.listeners.add(({ after }) => {
    const { status, metadata } = after ?? {};
    if (status === undefined || !("phase" in status) || status.phase === "Pending") return;
    started.add(metadata?.uid ?? "");
  });
  return started;
}

function watchRecords({ sessions }: World, started: ReadonlySet<string>, violate: Violate): void {
  sessions.onWrite.push((name, beforeBytes, afterBytes) => {
    if (beforeBytes === undefined || afterBytes === undefined) return;
    const before = decodeRecord(beforeBytes);
    const after = decodeRecord(afterBytes);
    if (before.uid !== after.uid) return;
    if (after.epoch < before.epoch) violate(name, "the epoch only grows", `${before.epoch} became ${after.epoch}`);
    if (!isPrefix(before, after)) violate(name, "events are only added", `${kinds(before)} became ${kinds(after)}`);
    if (
      before.finishedAtMs > 0 &&
      (after.finishedAtMs !== before.finishedAtMs || after.events.length !== before.events.length)
    )
      violate(name, "the terminal event is the last", `${kinds(before)} became ${kinds(after)}`);
    if (before.verdict !== undefined && after.verdict?.kind !== before.verdict.kind)
      violate(name, "a verdict is decided once", `${before.verdict.kind} became ${after.verdict?.kind ?? "none"}`);
    if (before.cancelRequested && !after.cancelRequested)
      violate(name, "a cancellation is kept", "the request has disappeared");
    for (const [index, { name: component, podUid }] of before.components.entries()) {
      const now = after.components[index]?.podUid;
      const isRemoved = now === "" && !started.has(podUid);
      if (podUid !== "" && now !== podUid && !isRemoved)
        violate(
          name,
          "a component keeps a pod that has started",
          `${component} had ${podUid} and has ${now ?? "none"}`,
        );
    }
  });
}

function isPrefix(before: SessionRecord, after: SessionRecord): boolean {
  return before.events.every(({ kind, atMs }, index) => {
    const same = after.events[index];
    return same?.kind === kind && same.atMs === atMs;
  });
}

function kinds({ events }: SessionRecord): string {
  return events.map(({ kind }) => kind).join(", ");
}

function watchLedger(world: World, violate: Violate): void {
  const reservations = new Map<number, Reservation>();
  const holders = new Map<string, Reservation>();
  const end = (sequence: number): void => {
    const owner = getWorkOfOwner(reservations.get(sequence)?.owner.id ?? "");
    reservations.delete(sequence);
    for (const [node, holder] of holders) {
      if (holder.sequence !== sequence) continue;
      holders.delete(node);
      const guest = runningOn(world, node).find((pod) => pod.session === owner);
      if (guest !== undefined)
        violate(owner, "machines are released only when their pods are gone", `${guest.pod} still runs on ${node}`);
    }
  };
  const grant = ({ sequence, machines }: Extract<LedgerEvent, { kind: "granted" }>): void => {
    const reservation = reservations.get(sequence);
    if (reservation === undefined) {
      violate(undefined, "only requested reservations are granted", `r-${sequence}`);
      return;
    }
    const { owner, needs } = reservation;
    const whole = machines.filter(({ shared }) => shared === undefined);
    const complete =
      machines.length === needs.length &&
      new Set(whole.map(({ node }) => node)).size === needs.filter(({ shared }) => shared === undefined).length &&
      needs.every((need, index) => {
        const machine = machines[index];
        return machine?.component === need.component && listAcceptedPools(need).includes(machine.pool);
      });
    if (!complete)
      violate(owner.id, "every grant is complete", `${machines.length} machines for ${needs.length} needs`);
    for (const { node } of whole) {
      const holder = holders.get(node);
      if (holder !== undefined) violate(owner.id, "no machine has two owners", `${node} is held by ${holder.owner.id}`);
      holders.set(node, reservation);
    }
  };
  let markedAtMs = world.time.nowMs;
  world.nodeStates.onWrite.push((key) => {
    if (key === bucketKeys.nodesComplete) markedAtMs = world.time.nowMs;
  });
  world.ledger.onEntry.push((events) => {
    const markAgeMs = world.time.nowMs - markedAtMs;
    if (markAgeMs > MAX_MARK_AGE_MS && events.some(({ kind }) => kind === "granted"))
      violate(undefined, "nothing is granted on stale node data", `the mark is ${markAgeMs} ms old`);
    for (const event of events) {
      if (event.kind === "requested") reservations.set(event.reservation.sequence, event.reservation);
      if (event.kind === "granted") grant(event);
      if (event.kind === "released") end(event.sequence);
    }
  });
}

/** The pods of owners on the node that have not ended. */
function runningOn(world: World, node: string): RunningPod[] {
  return [...world.cluster.pods.values()].flatMap((pod) => {
    const session = pod.metadata?.labels?.[labels.owner] ?? "";
    if (getNodeName(pod) !== node || isOver(pod) || session === "") return [];
    return [{ pod: pod.metadata?.name ?? "", session, isExclusive: isExclusive(pod) }];
  });
}

type RunningPod = { readonly pod: string; readonly session: string; readonly isExclusive: boolean };

function watchPods(world: World, started: ReadonlySet<string>, violate: Violate): void {
  const placed = new Map<string, string>();
  world.cluster.listeners.add(({ kind, name, before, after }) => {
    if (kind !== "pods" || after === undefined) return;
    const session = after.metadata?.labels?.[labels.owner] ?? "";
    const uid = after.metadata?.uid ?? "";
    const node = getNodeName(after);
    // A pod that was never placed has not run: its creator had lost the session.
    if (before !== undefined && getNodeName(before) === "" && node !== "") {
      const first = placed.get(name) ?? uid;
      if (first !== uid && started.has(first))
        violate(session, "no pod of a component runs twice", `${name} was ${first} and is ${uid}`);
      placed.set(name, uid);
      const others = runningOn(world, node).filter(
        (other) => other.pod !== name && (other.isExclusive || isExclusive(after)),
      );
      if (others[0] !== undefined)
        violate(session, "no machine carries pods of two owners", `${name} and ${others[0].pod} on ${node}`);
    }
  });
}
