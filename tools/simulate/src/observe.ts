import {
  getWorkOfOwner,
  type LedgerFact,
  type RunObservations,
  type Outage,
  type PodSeen,
} from "@muster/chaos/observed";
import { enums, labels, muster, subjects } from "@muster/proto";
import { SHARED } from "@muster/resources";
import { getReservationId, type Reservation } from "@muster/reservation-manager/reservation";
import { emptyLedger, evolveLedger } from "@muster/reservation-manager/ledger";
import { entryCodec } from "@muster/reservation-manager/messages";
import { recordCodec } from "@muster/session-controller/messages";
import { MAX_CLOCK_SKEW_MS } from "./clocks.ts";
import { STREAMS, type World } from "./world.ts";
import { isAgent } from "./foreign-pods.ts";
import type { KubeObject } from "./cluster.ts";
import { isGated, isOver, getNodeName } from "./kubelets.ts";
import type { UserAnswers } from "./users.ts";

/** Records all changes of pods and the ledger, for the check at the end. */
export type Observer = { observed(): RunObservations };

export function observeWorld(world: World, answers: UserAnswers, outages: readonly Outage[]): Observer {
  const pods = new Map<string, PodSeen>();
  const ledger: LedgerFact[] = [];
  watchPods(world, pods);
  const held = watchLedger(world, ledger);
  return {
    observed: () => ({
      sessions: new Map([...world.sessions.entries].map(([name, { bytes }]) => [name, decodeSession(bytes)])),
      jobs: new Map(),
      acknowledged: answers.acknowledged,
      refused: answers.refused,
      published: indexPublished(world),
      pods: [...pods.values()],
      ledger,
      // Sessions have the times of the clocks of their controllers.
      outages: outages.map((outage) => ({
        ...outage,
        fromMs: outage.fromMs - MAX_CLOCK_SKEW_MS,
        toMs: outage.toMs + MAX_CLOCK_SKEW_MS,
      })),
      podDeletions: [],
      // Faults are everywhere in a simulation, so every session counts as disturbed.
      faults: [{ id: "weather", text: "the weather", fromMs: world.startMs, toMs: Number.MAX_SAFE_INTEGER }],
      left: findLeftovers(world, held),
    }),
  };
}

function watchPods(world: World, pods: Map<string, PodSeen>): void {
  let place = 0;
  world.cluster.listeners.add(({ kind, name, before, after }) => {
    const object = after ?? before;
    if (kind !== "pods" || object?.metadata?.labels?.[labels.ownerKind] !== "session") return;
    place += 1;
    const uid = object.metadata.uid ?? "";
    const seen = pods.get(uid);
    const node = getNodeName(object);
    const over = after === undefined || isOver(world.cluster.pods.get(name));
    pods.set(uid, {
      name,
      uid,
      kind: "session",
      work: object.metadata.labels[labels.owner] ?? "",
      component: object.metadata.labels[labels.component] ?? "",
      confirmed: seen?.confirmed === true || !isGated(object),
      firstSeenMs: seen?.firstSeenMs ?? world.time.nowMs,
      node,
      boundPlace: seen?.boundPlace ?? (node === "" ? undefined : place),
      endPlace: seen?.endPlace ?? (over ? place : undefined),
      goneMs: after === undefined ? world.time.nowMs : undefined,
      isShared: object.metadata.labels[labels.exclusive] === SHARED,
      states: [...new Set([...(seen?.states ?? []), getPhase(object)])],
    });
  });
}

function getPhase({ status }: KubeObject): string {
  return status !== undefined && "phase" in status ? (status.phase ?? "") : "";
}

/** Returns the live reservations, also of a log from which no ledger can be restored. */
function watchLedger(world: World, ledger: LedgerFact[]): ReadonlyMap<number, Reservation> {
  const owners = new Map<number, Reservation>();
  const held = new Map<number, Reservation>();
  world.ledger.onEntry.push((events) => {
    for (const event of events) {
      if (event.kind === "requested") {
        owners.set(event.reservation.sequence, event.reservation);
        held.set(event.reservation.sequence, event.reservation);
      }
      if (event.kind === "granted") {
        const { sequence, machines, atMs } = event;
        const nodes = machines.map(({ node }) => node);
        const parts = machines.flatMap(({ node, shared }) =>
          shared === undefined ? [] : [{ node, requests: shared }],
        );
        const work = getWorkOfOwner(owners.get(sequence)?.owner.id ?? "");
        ledger.push({ kind: "granted", atMs, reservation: getReservationId(sequence), work, nodes, parts });
      }
      if (event.kind === "released") {
        held.delete(event.sequence);
        ledger.push({ kind: "ended", atMs: event.atMs, reservation: getReservationId(event.sequence) });
      }
    }
  });
  return held;
}

function decodeSession(bytes: Uint8Array) {
  const { warnings, ...record } = recordCodec.decode(bytes);
  return { ...record, warnings: warnings.map(({ code, message }) => `${code}: ${message}`) };
}

function indexPublished(world: World): ReadonlyMap<string, ReadonlySet<string>> {
  const published = new Map<string, Set<string>>();
  const stream = world.bus.memory.streams.get(STREAMS[0].name);
  for (let from = 1; ;) {
    const message = stream?.next(subjects.anySessionEventRecorded, from);
    if (message === undefined) return published;
    const { name, event } = muster.session.v1.SessionEventRecorded.decode(message.payload);
    const kinds = published.get(name) ?? new Set();
    kinds.add(enums.SessionEventKind.nameOf(event?.kind) ?? "");
    published.set(name, kinds);
    from = message.sequence + 1;
  }
}

/** Restores the ledger from its log. */
export function getLedger(world: Pick<World, "ledger">) {
  return world.ledger.entries.flatMap(({ bytes }) => entryCodec.decode(bytes)).reduce(evolveLedger, emptyLedger);
}

function findLeftovers(world: World, held: ReadonlyMap<number, Reservation>): RunObservations["left"] {
  const { streams } = world.bus.memory;
  return {
    pods: [...world.cluster.pods].flatMap(([name, pod]) => (isAgent(pod) ? [] : [name])),
    jobs: [],
    objects: [],
    reservations: [...held.values()].map(({ owner, sequence }) => `${getReservationId(sequence)} of ${owner.id}`),
    machines: [],
    deadLetters: (streams.get(STREAMS[1].name)?.state().messages ?? 0) > 0 ? ["a dead letter"] : [],
    locks: [],
  };
}
