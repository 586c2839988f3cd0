import { FaultError } from "@muster/faults";
import { describe, expect, it } from "vitest";
import { silent } from "../test/fake-world.ts";
import { record, running, START_MS } from "../test/samples.ts";
import type { SessionRecord } from "./domain/session.ts";
import { digestOf } from "./domain/plan-sweep.ts";
import { sweep, sweepForever, type SweepDeps } from "./sweep.ts";

const never = new AbortController().signal;
const POLICY = { leakAgeMs: 60_000, nodeLostMs: 60_000 };
const NOW = START_MS + 1_000_000;
const verdict = { kind: "DONE", atMs: START_MS, description: "", reason: "" } as const;
const over = { verdict, finishedAtMs: START_MS, logsCollected: true } as const;
const pod = {
  pod: "bench-driver",
  uid: "p-1",
  session: "bench",
  ownerUid: "u-1",
  otherInstallation: undefined,
  deleting: false,
  overdueOn: undefined,
  createdAtMs: START_MS,
};

/** A world whose list of sessions may lag behind what is stored. */
function world(stored: SessionRecord | undefined, more: Partial<SweepDeps> = {}, listed = stored) {
  const did: string[] = [];
  let now = stored;
  const deps: SweepDeps = {
    now: () => NOW,
    logger: silent,
    rest: () => Promise.resolve(true),
    listPods: () => Promise.resolve([]),
    listReservations: () => Promise.resolve([]),
    listReplacements: () => Promise.resolve([]),
    releaseReplacement: () => Promise.resolve(),
    sessions: () => (listed === undefined ? [] : [digestOf(listed)]),
    changes: () => 0,
    load: () => Promise.resolve(now === undefined ? undefined : { record: now, revision: 1 }),
    save: (record) => {
      now = record;
      did.push("save");
      return Promise.resolve(2);
    },
    run: (name) => Promise.resolve(void did.push(`run ${name}`)),
    deletePod: (name) => Promise.resolve(void did.push(`delete ${name}`)),
    limitSessions: () => Promise.resolve(),
    tellLeftAlone: (installations) => {
      if (installations.length > 0) did.push(`leave ${installations.join(" ")}`);
    },
    release: (name, id) => Promise.resolve(void did.push(`release ${name} ${id}`)),
    forget: ({ record }) => Promise.resolve(void did.push(`forget ${record.name}`)),
    ...more,
  };
  return { deps, did, stored: () => now };
}

describe("sweep", () => {
  it("leaves alone what another installation has made, and tells whose that is", async () => {
    const foreign = { ...pod, otherInstallation: "muster-2" };
    const { deps, did } = world(undefined, { listPods: () => Promise.resolve([foreign, { ...pod, uid: "p-2" }]) });
    await sweep(deps, POLICY, never);
    expect(did).toEqual(["leave muster-2", "delete bench-driver"]);
  });

  it("tells the ledger each time how many sessions may run, and goes on when the ledger is away", async () => {
    let told = 0;
    const away = new FaultError({ code: "unavailable", dependency: "reservation", retryAfterMs: 0 });
    const limitSessions = (): Promise<void> => {
      told += 1;
      return Promise.reject(away);
    };
    const { deps, did } = world(running(over), { limitSessions });
    await sweep(deps, POLICY, never);
    expect(told).toBe(1);
    expect(did).toContain("release bench r-1");
  });

  it("removes what is left over first, and then has several sessions run concurrently", async () => {
    const names = ["a", "b", "c"];
    const all = Promise.withResolvers<undefined>();
    const { deps, did } = world(undefined, {
      sessions: () => names.map((name) => digestOf({ ...running(), name })),
      listPods: () => Promise.resolve([pod]),
      run: async (name) => {
        did.push(`run ${name}`);
        if (did.length === 1 + names.length) all.resolve(undefined);
        await all.promise;
      },
    });
    await sweep(deps, POLICY, never);
    expect(did).toEqual(["delete bench-driver", "run a", "run b", "run c"]);
  });

  it("finishes the clean-up of a session whose executor gave up on it", async () => {
    const { deps, did, stored } = world(running(over));
    await sweep(deps, POLICY, never);
    expect(did).toEqual(["save", "release bench r-1", "save"]);
    expect(stored()).toMatchObject({ podsDeleted: true, released: true });
  });

  it("leaves the pod of a session alone that the list does not show yet", async () => {
    const { deps, did } = world(running(), { listPods: () => Promise.resolve([pod]), sessions: () => [] });
    await sweep(deps, POLICY, never);
    expect(did).toEqual([]);
  });

  it("forgets nothing that was made anew under an old name", async () => {
    const expired = running({ ...over, podsDeleted: true, released: true, finishedAtMs: 1 });
    const { deps, did } = world({ ...running(), uid: "u-2" }, {}, expired);
    await sweep(deps, POLICY, never);
    expect(did).toEqual([]);
  });

  it("releases nothing by what it knew of an earlier session of the name", async () => {
    const listed = running({ ...over, podsDeleted: true });
    const newer = { ...listed, uid: "u-2" };
    const { deps, did } = world(newer, { sessions: () => [digestOf(listed)] });
    await sweep(deps, POLICY, never);
    expect(did).toEqual([]);
    const unknown = world(newer, {
      sessions: () => [],
      listReservations: () => Promise.resolve([{ id: "r-2", session: "bench", createdAtMs: START_MS, granted: true }]),
    });
    await sweep(unknown.deps, POLICY, never);
    expect(unknown.did).toEqual([]);
  });

  it("has unfinished sessions run, and touches nothing else, while the API server is away", async () => {
    const away = () =>
      Promise.reject(new FaultError({ code: "unavailable", dependency: "kubernetes", retryAfterMs: 0 }));
    const live = world(running(), { listPods: away });
    await sweep(live.deps, POLICY, never);
    expect(live.did).toEqual(["run bench"]);
    const finished = world(running(over), { listPods: away });
    await sweep(finished.deps, POLICY, never);
    expect(finished.did).toEqual([]);
  });

  it("goes on with the other steps when one fails", async () => {
    const away = () =>
      Promise.reject(new FaultError({ code: "unavailable", dependency: "kubernetes", retryAfterMs: 0 }));
    const { deps, did } = world(running(), {
      listPods: () => Promise.resolve([{ ...pod, ownerUid: "u-0" }]),
      run: away,
    });
    await sweep(deps, POLICY, never);
    expect(did).toEqual(["delete bench-driver"]);
  });

  it("goes on with the other sessions when the record of one cannot be read", async () => {
    const unreadable = () => Promise.reject(new FaultError({ code: "internal", operation: "reading session bench" }));
    const { deps, did } = world(running(over), {
      load: unreadable,
      sessions: () => [digestOf(running(over)), digestOf(running({ name: "other" }))],
    });
    await sweep(deps, POLICY, never);
    expect(did).toEqual(["run other"]);
  });

  it("looks at no session between two sweeps while nothing changes and no time in a queue ends", async () => {
    const waiting = record({ reservationId: "r-1" });
    const stop = new AbortController();
    const list = [digestOf(waiting)];
    let nowMs = START_MS;
    let looks = 0;
    let rests = 0;
    const { deps, did } = world(waiting, {
      now: () => nowMs,
      listReservations: () => Promise.resolve([{ id: "r-1", session: "bench", createdAtMs: START_MS, granted: false }]),
      sessions: () => {
        looks += 1;
        return list;
      },
      rest: () => {
        rests += 1;
        nowMs += 1000;
        if (rests === 50) stop.abort();
        return Promise.resolve(false);
      },
    });
    await sweepForever(deps, { ...POLICY, everyMs: 100_000 }, stop.signal);
    // One for the sweep, one for when the next time in a queue ends.
    expect(looks).toBeLessThanOrEqual(2);
    expect(did).toEqual([]);
  });

  it("has a session run within a second of the end of its time in the queue, without a sweep", async () => {
    const waiting = record({ reservationId: "r-1" });
    const stop = new AbortController();
    let nowMs = START_MS;
    const { deps, did } = world(waiting, {
      now: () => nowMs,
      listReservations: () => Promise.resolve([{ id: "r-1", session: "bench", createdAtMs: START_MS, granted: false }]),
      rest: (ms) => {
        expect(ms).toBeLessThanOrEqual(1000);
        if (did.length > 0) stop.abort();
        nowMs += waiting.spec.queueTimeoutMs / 2;
        return Promise.resolve(false);
      },
    });
    await sweepForever(deps, { ...POLICY, everyMs: 10 * waiting.spec.queueTimeoutMs }, stop.signal);
    expect(did).toEqual(["run bench"]);
  });
});
