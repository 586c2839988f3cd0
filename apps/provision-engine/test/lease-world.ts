import { isDeepStrictEqual } from "node:util";
import { FaultError } from "@muster/faults";
import { isOver } from "@muster/leases";
import { digest } from "@muster/leases/keys";
import { makeCallPauses, type CallPauses } from "../src/lead/call-pauses.ts";
import { ALONE, makeLeaseRecord, makeOrder } from "./a-lease.ts";
import { toReferenced } from "../src/domain/decide-take-over.ts";
import { mayHoldResources, getOrigin, type LeaseRecord, type LeasePhase } from "../src/domain/lease.ts";
import { takeSnapshot, planLease } from "../src/domain/plan-lease.ts";
import { planFeedback } from "../src/domain/plan-feedback.ts";
import { NO_UNITS } from "../src/domain/claim.ts";
import { readDecision, writeDecision } from "../src/domain/stored-decision.ts";
import { transitionLease } from "../src/domain/transition-lease.ts";
import { withEvent, type LeaseChange } from "../src/domain/lease-change.ts";
import { readClaim } from "../src/types/workload-types.ts";
import { makeLeasePasses, type PassOutcome, type PassDeps, type PassPolicy } from "../src/lead/pass.ts";
import type { StoredLease } from "../src/holdings/records.ts";

const NS_PER_MS = 1_000_000n;
const POLICY: PassPolicy = {
  tombstoneNs: 20n * NS_PER_MS,
  crash: { windowNs: 1000n * NS_PER_MS },
  retry: { firstMs: 1, maxMs: 4 },
  maxProvisionAttempts: 3,
};

/** Duration of an order, and of its lease unless it is renewed. */
export const DURATION_NS = 50n * NS_PER_MS;

/** The lease that an order refers to. */
export const REFERENCES: Readonly<Record<string, string>> = { "1-3": "1-1", "1-4": "1-3", "1-5": "1-1" };

export type Weather = "well" | "refused" | "failing" | "half-made" | "queued";

/** Phases that one write may lead to. */
const EDGES: Readonly<Record<LeasePhase, readonly LeasePhase[]>> = {
  ORDERED: ["ORDERED", "PROVISIONING", "ENDED", "FAILED"],
  PROVISIONING: ["PROVISIONING", "ACTIVE", "DECOMMISSIONING"],
  ACTIVE: ["ACTIVE", "DECOMMISSIONING", "ENDED"],
  DECOMMISSIONING: ["DECOMMISSIONING", "ENDED", "FAILED"],
  ENDED: ["ENDED"],
  FAILED: ["FAILED", "ORDERED", "ENDED"],
};

/** A call of a pass that waits for the test. */
type Gate = { readonly fence: number; readonly open: () => void };

/**
 * A bucket, a cluster and engines. Any engine may stop between two calls, permanently or for a while. The invariants are checked wherever they could break;
 * violations are in `broken`.
 */
export function makeLeaseWorld() {
  let nowNs = 1_000n;
  let revision = 0;
  let fence = 1;
  let zombies = false;
  let weather: Weather = "well";
  let gates: Gate[] = [];
  const running = new Map<string, Promise<unknown>>();
  const records = new Map<string, StoredLease>();
  /** Records as each engine knows them: the initial ones, its own reads and writes, and the changes that it has heard of. */
  const seenBy = new Map<number, Map<string, StoredLease>>();
  /** The existing workloads by name, with the run that each was last created for. */
  const copies = new Map<string, number>();
  const published: string[] = [];
  const paused = new Map<number, CallPauses>();
  const broken: string[] = [];
  /** Runs of leases whose containers have ended too often. */
  const crashed = new Set<string>();

  const require = (held: boolean, what: string): void => {
    if (!held) broken.push(what);
  };
  const put = (next: LeaseRecord, before: LeaseRecord | undefined): StoredLease => {
    const { id } = next.order;
    if (before !== undefined)
      require(EDGES[before.phase].includes(next.phase), `${id}: ${before.phase} -> ${next.phase}`);
    if (before?.phase === "ACTIVE" && next.phase === "ENDED") require(next.heir !== undefined, `${id} ends at once`);
    const isCompact = next.orderHash !== undefined;
    require(next.order.data === (isCompact ? "" : makeOrder().data), `${id}: ${next.phase} with the data of another`);
    require(!isCompact || next.phase === "ENDED" || next.phase === "FAILED", `${id}: ${next.phase} without its data`);
    const stored = { record: next, revision: ++revision };
    records.set(id, stored);
    return stored;
  };
  /** Leases that have or may have the workload of a name. */
  const holdersOf = (name: string): string[] =>
    [...records.values()].flatMap(({ record }) => {
      const { order, takesOver, phase } = record;
      const older = takesOver === undefined ? undefined : records.get(takesOver)?.record;
      if (takesOver !== undefined && older?.heir !== order.id) return [];
      return mayHoldResources(phase) && getOrigin(older ?? record).id === name ? [order.id] : [];
    });
  /** Another writer's change of a stored record. */
  const change = (id: string, made: LeaseChange): void => {
    const found = records.get(id)?.record;
    const next = found && transitionLease(found, made, nowNs).next;
    if (next !== undefined) put(next, found);
  };

  const referencedBy = ({ order, phase }: LeaseRecord) => {
    const found = records.get(order.reference ?? "")?.record;
    return phase === "ORDERED" && found !== undefined ? toReferenced(order, found, true) : undefined;
  };
  const keptFor = ({ heir }: LeaseRecord): string | undefined => {
    const found = records.get(heir ?? "")?.record;
    return found !== undefined && (mayHoldResources(found.phase) || found.heir !== undefined) ? heir : undefined;
  };
  const workloadOf = (record: LeaseRecord): string => {
    const { id, run } = getOrigin(record);
    return `${id} ${run}`;
  };

  /** Facts that one engine knows. */
  const pausesOf = (own: number): CallPauses => {
    const pauses = paused.get(own) ?? makeCallPauses(POLICY.retry);
    paused.set(own, pauses);
    return pauses;
  };
  const seenOf = (own: number): Map<string, StoredLease> => {
    const seen = seenBy.get(own) ?? new Map(records);
    seenBy.set(own, seen);
    return seen;
  };
  const hear = (id: string): void => {
    const found = records.get(id);
    if (found === undefined) seenOf(fence).delete(id);
    else seenOf(fence).set(id, found);
  };
  const depsOf = (own: number, id: string): PassDeps => {
    const pauses = pausesOf(own);
    const seen = seenOf(own);
    const learnt = (stored: StoredLease): StoredLease => {
      seen.set(stored.record.order.id, stored);
      return stored;
    };
    const gate = async <Value>(effect: () => Value): Promise<Value> => {
      await new Promise<void>((open) => gates.push({ fence: own, open }));
      return effect();
    };
    const current = ({ record, revision: expectedRevision }: StoredLease): void => {
      const found = records.get(record.order.id);
      const isOvertaken = found === undefined || found.revision !== expectedRevision || found.record.fence > own;
      if (isOvertaken) throw new FaultError({ code: "conflict", id, expectedRevision, actualRevision: 0 });
    };
    return {
      fence: own,
      now: () => nowNs,
      holdingsRevision: () => revision,
      read: (asked) =>
        gate(() => {
          const found = records.get(asked);
          return found && learnt(found);
        }),
      seen: (asked) => seen.get(asked),
      write: (stored, next) =>
        gate(() => {
          current(stored);
          return learnt(put({ ...next, fence: own }, stored.record));
        }),
      remove: (stored) =>
        gate(() => {
          current(stored);
          require(isOver(
            stored.record.order.createdNs + stored.record.order.durationNs,
            nowNs,
          ), `${id} is forgotten early`);
          const { heir } = stored.record;
          require(heir === undefined || holdersOf(id).length === 0, `${id} is forgotten before ${heir ?? ""}`);
          records.delete(id);
        }),
      snapshotOf: (record) =>
        takeSnapshot(
          pauses.withPause(record),
          {
            claim: readClaim(record.order),
            isServed: true,
            around: { ...ALONE, held: NO_UNITS, capacity: {} },
            reference: referencedBy(record),
            keptFor: keptFor(record),
            exits: crashed.has(workloadOf(record))
              ? [{ pod: workloadOf(record), startedNs: nowNs, exits: 4, lastNs: nowNs, how: "exit code 1 (Error)" }]
              : [],
          },
          { maxOrderAgeNs: DURATION_NS, maxListedAgeNs: DURATION_NS },
        ),
      planned: (snapshot, plan, atNs) => {
        const decision = { nowNs: atNs, policy: POLICY, snapshot };
        const replayed = readDecision(writeDecision(decision, plan));
        require(isDeepStrictEqual(
          planLease(replayed.snapshot, replayed.policy, replayed.nowNs),
          plan,
        ), `${id} is planned otherwise from its file`);
      },
      provision: (record) => {
        require(!isOver(record.expiresAtNs, nowNs), `${id} is begun after its end`);
        const made = weather;
        const { id: name, run } = getOrigin(record);
        return gate((): PassOutcome => {
          if (made === "refused") return { ok: false, message: "no", isRetryable: false };
          if (made === "failing") return { ok: false, message: "not now", isRetryable: true };
          if (made === "queued")
            return { ok: false, message: "no machine is free", isRetryable: true, isWaiting: true };
          copies.set(name, Math.max(run, copies.get(name) ?? 0));
          return made === "half-made"
            ? { ok: false, message: "half of it", isRetryable: false }
            : { ok: true, data: `"${id}"` };
        });
      },
      decommission: (record) => {
        const made = weather;
        const { id: name, run } = getOrigin(record);
        return gate((): PassOutcome => {
          if (made === "failing") return { ok: false, message: "not now", isRetryable: true };
          if ((copies.get(name) ?? 0) <= run) copies.delete(name);
          return { ok: true, data: "null" };
        });
      },
      pauses,
      sign: (result) => ({ ...result, signature: new Uint8Array(64) }),
      isSame: (a, b) => a.data === b.data,
      digest,
    };
  };

  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const world = {
    broken,
    records,
    copies,
    published,
    order: (id: string): void => {
      const found = records.get(id)?.record;
      if (found !== undefined) {
        change(id, { kind: "resent", data: makeOrder().data });
        return;
      }
      // Always the same order, as a sender who recorded it would send it.
      const order = makeOrder({ id, createdNs: 1_000n, durationNs: DURATION_NS, reference: REFERENCES[id] });
      if (isOver(order.createdNs + order.durationNs, nowNs)) return;
      put(withEvent(makeLeaseRecord({ order, phase: "ORDERED", fence: 0 }), "ORDERED", "", nowNs), undefined);
    },
    renew: (id: string): void => {
      const found = records.get(id)?.record;
      if (found === undefined) return;
      const sequence = (found.renewal?.sequence ?? 0) + 1;
      const { engine, user, signature } = found.order;
      const expiresAtNs = found.expiresAtNs + DURATION_NS;
      change(id, { kind: "renewed", renewal: { id, engine, user, signature, expiresAtNs, sequence } });
    },
    end: (id: string): void => {
      change(id, { kind: "ending", ending: { cause: "REQUESTED", message: "", request: undefined } });
    },
    /** Makes the container exit too often; the next pass over the lease reports it. */
    crashWorkload: (id: string): void => {
      const found = records.get(id)?.record;
      if (found?.phase === "ACTIVE") crashed.add(workloadOf(found));
    },
    report: (id: string, arrives: boolean, atNs = nowNs): void => {
      const found = records.get(id)?.record;
      const plan = found && planFeedback(found, atNs);
      if (plan?.kind !== "now") return;
      const { number } = plan;
      change(
        id,
        arrives
          ? { kind: "feedback-sent", number }
          : { kind: "feedback-delayed", number, notBeforeNs: nowNs + NS_PER_MS },
      );
    },
    publish: (id: string): void => {
      const last = records.get(id)?.record.outbox.at(-1);
      if (last === undefined) return;
      published.push(...(records.get(id)?.record.outbox.map((event) => event.id) ?? []));
      change(id, { kind: "published", upTo: last.id });
    },
    wait: (ms: number): void => {
      nowNs += BigInt(ms) * NS_PER_MS;
    },
    weather: (next: Weather): void => {
      weather = next;
    },
    /** The leading engine begins a pass, unless one over this lease is in flight. */
    pass: async (id: string): Promise<void> => {
      const key = `${fence} ${id}`;
      if (running.has(key)) return;
      const pass = makeLeasePasses(depsOf(fence, id), POLICY)(id, new AbortController().signal);
      running.set(key, pass);
      void pass.catch((error: unknown) => broken.push(String(error))).finally(() => running.delete(key));
      await settle();
    },
    isBusy: (): boolean => gates.length > 0,
    /** The leading engine hears of the changes that others have made to the lease. */
    hear,
    /** Executes one pending call of any engine. */
    step: async (choice: number): Promise<void> => {
      const [gate] = gates.splice(choice % Math.max(gates.length, 1), 1);
      gate?.open();
      await settle();
    },
    /** The leading engine dies in the middle of its work. */
    kill: (): void => {
      gates = gates.filter((gate) => gate.fence !== fence);
      fence += 1;
    },
    /** Another engine takes over without the knowledge of the leading one. */
    depose: (): void => {
      zombies ||= gates.some((gate) => gate.fence === fence);
      fence += 1;
    },
    /** Removes workloads without a lease while no call is in flight. */
    sweep: (): void => {
      for (const name of copies.keys()) if (holdersOf(name).length === 0) copies.delete(name);
    },
    check: (): void => {
      for (const [id, { record }] of records) {
        const holders = holdersOf(id);
        require(holders.length <= 1, `${holders.join(" and ")} have what is there of ${id}`);
        if (record.phase === "ACTIVE") require(copies.has(getOrigin(record).id), `${id} is ACTIVE and not there`);
        // A deposed engine may still create something late, which the sweep removes.
        if (holders.length === 0 && !zombies) require(!copies.has(id), `${id} is ${record.phase} and still there`);
      }
    },
    /** Executes all pending calls without faults, and makes passes until they change nothing. */
    calm: async (ids: readonly string[]): Promise<void> => {
      weather = "well";
      for (let round = 0; round < 6; round++) {
        while (gates.length > 0) await world.step(0);
        world.wait(5);
        for (const id of ids) {
          for (const each of ids) hear(each);
          await world.pass(id);
          while (gates.length > 0) await world.step(0);
          // Includes waits that are longer than the rest of the test.
          world.report(id, true, 2n ** 62n);
          world.publish(id);
        }
      }
    },
  };
  return world;
}
