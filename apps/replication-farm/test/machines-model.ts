import { FaultError } from "@muster/faults";
import type { Bucket } from "@muster/store";
import type { StoredValue } from "../src/adapters/messages.ts";
import { readMachineOwner } from "../src/domain/plan-set-machines.ts";
import type { ReplicaSet } from "../src/domain/replica-set.ts";
import type { MachineState, SetPod } from "../src/domain/set-snapshot.ts";

/** The name of the only set. */
export const SET = "web";
export const POOL = "n";

export type ModelNode = { ready: boolean; schedulable: boolean; unreadySinceMs: number | undefined };
export type ModelPod = {
  readonly name: string;
  readonly uid: string;
  readonly setUid: string;
  readonly node: string;
  /** Confirmed for its node, on which it counts from then on. */
  placed: boolean;
  ready: boolean;
  deleting: boolean;
};
type Reservation = { readonly id: string; readonly owner: string; node: string | undefined };

/** The ledger, the API server, the nodes and the store, as far as one set needs them. It records violations. */
export class MachinesModel {
  nowMs = 1_000_000;
  ledgerAway = false;
  /** Farms catch what their calls throw. */
  readonly broken: string[] = [];
  readonly nodes = new Map<string, ModelNode>();
  readonly pods = new Map<string, ModelPod>();
  /** The last state that the watcher published. */
  seenPods: ReadonlyMap<string, SetPod> = new Map();
  reservations: Reservation[] = [];
  #record: { readonly record: ReplicaSet; readonly revision: number } | undefined;
  #lastId = 0;
  #watchedAtMs = this.nowMs;

  constructor(nodes: number) {
    for (let index = 0; index < nodes; index += 1)
      this.nodes.set(`n-${index}`, { ready: true, schedulable: true, unreadySinceMs: undefined });
  }

  newId(): string {
    this.#lastId += 1;
    return String(this.#lastId);
  }

  get set(): ReplicaSet | undefined {
    return this.#record?.record;
  }

  /** Writes as a user's request does. */
  put(set: ReplicaSet): void {
    this.#record = { record: set, revision: Number(this.newId()) };
  }

  reserve(owner: string): Reservation {
    this.#refuseWhileAway();
    const known = this.reservations.find((each) => each.owner === owner);
    if (known !== undefined) return known;
    const made = { id: `r-${this.newId()}`, owner, node: undefined };
    this.reservations.push(made);
    return made;
  }

  unreserve(id: string): void {
    this.#refuseWhileAway();
    const node = this.reservations.find((each) => each.id === id)?.node;
    for (const pod of this.pods.values())
      if (pod.placed && pod.node === node) this.broken.push(`${node} is released with ${pod.name} on it`);
    this.end(id);
  }

  /** Another client's. */
  end(id: string): void {
    this.reservations = this.reservations.filter((each) => each.id !== id);
  }

  /** The reservations of the set, by the number of the machine. */
  ownReservations(): Map<number, Exclude<MachineState, { readonly kind: "gone" }>> {
    this.#refuseWhileAway();
    const own = new Map<number, Exclude<MachineState, { readonly kind: "gone" }>>();
    for (const { id: reservation, owner, node } of this.reservations) {
      const number = readMachineOwner(owner)?.number;
      if (number === undefined) continue;
      if (node === undefined)
        own.set(number, { kind: "waiting", reservation, pool: POOL, because: "POOL_AVAILABILITY" });
      else own.set(number, { kind: "granted", reservation, pool: POOL, node });
    }
    return own;
  }

  /** Grants free machines to the request that has waited longest. */
  grant(): void {
    if (this.ledgerAway) return;
    for (const reservation of this.reservations) reservation.node ??= this.#freeNode();
  }

  #freeNode(): string | undefined {
    const held = new Set(this.reservations.map(({ node }) => node));
    return [...this.nodes].find(([name, { ready, schedulable }]) => ready && schedulable && !held.has(name))?.[0];
  }

  #refuseWhileAway(): void {
    if (this.ledgerAway)
      throw new FaultError({ code: "unavailable", dependency: "muster.v1.reservation", retryAfterMs: 0 });
  }

  makePod(name: string, node: string, setUid: string): ModelPod {
    const known = this.pods.get(name);
    if (known !== undefined) return known;
    const uid = `pod-${this.newId()}`;
    const pod = { name, uid, setUid, node, placed: false, ready: false, deleting: false };
    this.pods.set(name, pod);
    return pod;
  }

  confirmPod(name: string, uid: string): void {
    const pod = this.pods.get(name);
    if (pod?.uid !== uid || pod.deleting) return;
    for (const other of this.pods.values())
      if (other !== pod && other.placed && other.node === pod.node)
        this.broken.push(`${name} comes to ${pod.node}, where ${other.name} is`);
    pod.placed = true;
  }

  deletePod(name: string, uid: string, force: boolean): void {
    const pod = this.pods.get(name);
    if (pod?.uid !== uid) return;
    if (pod.placed && !force) pod.deleting = true;
    else this.pods.delete(name);
  }

  /** Simulates the ready nodes: starts placed pods, removes pods that are being deleted. */
  runNodes(): void {
    for (const [name, pod] of this.pods) {
      if (!pod.placed || this.nodes.get(pod.node)?.ready !== true) continue;
      if (pod.deleting) this.pods.delete(name);
      else pod.ready = true;
    }
  }

  /** Whether farms still rely on the watcher's states, as by FARM_NODES_FRESH_MS. */
  get isWatched(): boolean {
    return this.nowMs - this.#watchedAtMs <= 120_000;
  }

  watch(): void {
    this.#watchedAtMs = this.nowMs;
    this.seenPods = new Map(
      [...this.pods.values()].map(({ name, uid, node, placed, ready, deleting }) => [
        name,
        { name, uid, node: placed ? node : "", health: ready ? "READY" : "NOT_READY", sinceMs: 0, deleting },
      ]),
    );
  }

  /** A bucket with compare-and-set. */
  bucket(): Bucket<StoredValue<ReplicaSet>, ReplicaSet> {
    const check = (revision: number): void => {
      const actualRevision = this.#record?.revision ?? 0;
      if (actualRevision !== revision)
        throw new FaultError({ code: "conflict", id: SET, expectedRevision: revision, actualRevision });
    };
    const entry = () =>
      this.#record && { key: SET, revision: this.#record.revision, value: { record: this.#record.record } };
    const later = <Value>(work: () => Value): Promise<Value> => new Promise((resolve) => resolve(work()));
    return {
      name: "sets",
      get: () => later(entry),
      list: () => later(() => [entry() ?? []].flat()),
      create: () => Promise.reject(new Error("farms make no sets")),
      update: (_key, record, revision) =>
        later(() => {
          check(revision);
          this.put(record);
          return this.#record?.revision ?? 0;
        }),
      delete: (_key, revision) =>
        later(() => {
          check(revision);
          this.#record = undefined;
        }),
      modify: () => Promise.reject(new Error("farms write revisions that they have read")),
      watch: () => {
        throw new Error("an unexpected watch");
      },
    };
  }
}
