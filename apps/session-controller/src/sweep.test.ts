import { FaultError } from "@muster/faults";
import { describe, expect, it } from "vitest";
import { silent } from "../test/fake-world.ts";
import { makeRecord, makeRunning, START_MS } from "../test/samples.ts";
import type { SessionRecord } from "./domain/session.ts";
import { buildDigest } from "./domain/plan-sweep.ts";
import { buildReplacementPrefix } from "./domain/replacement-owner.ts";
import { sweepOnce, sweepForever, type SweepDeps } from "./sweep.ts";

const never = new AbortController().signal;
const POLICY = { leakAgeMs: 60_000, nodeLostMs: 60_000 };
const NOW = START_MS + 1_000_000;
const verdict = { kind: "DONE", atMs: START_MS, description: "", reason: "" } as const;
const over = { verdict, finishedAtMs: START_MS, logsCollected: true } as const;
const pod = {
  kind: "pod",
  pod: "bench-driver",
  uid: "p-1",
  session: "bench",
  ownerUid: "u-1",
  otherInstallation: undefined,
  deleting: false,
  overdueOn: undefined,
  createdAtMs: START_MS,
} as const;

/** A world whose list of sessions may lag behind the stored ones. */
function world(stored: SessionRecord | undefined, more: Partial<SweepDeps> = {}, listed = stored) {
  const did: string[] = [];
  let now = stored;
  const deps: SweepDeps = {
    now: () => NOW,
    logger: silent,
    rest: () => Promise.resolve(true),
    listObjects: () => Promise.resolve([]),
    releaseReplacement: () => Promise.resolve(),
    digests: () => (listed === undefined ? [] : [buildDigest(listed)]),
    load: () => Promise.resolve(now === undefined ? undefined : { record: now, revision: 1 }),
    save: (record) => {
      now = record;
      did.push("save");
      return Promise.resolve(2);
    },
    wake: (name) => void did.push(`wake ${name}`),
    deletePod: ({ pod: name }) => Promise.resolve(void did.push(`delete ${name}`)),
    limitSessions: () => Promise.resolve(),
    reportForeign: (installations) => {
      if (installations.length > 0) did.push(`leave ${installations.join(" ")}`);
    },
    release: (name, id) => Promise.resolve(void did.push(`release ${name} ${id}`)),
    forget: ({ record }) => Promise.resolve(void did.push(`forget ${record.name}`)),
    ...more,
  };
  return { deps, did, stored: () => now };
}

describe("sweep", () => {
  it("keeps objects of another installation, and reports it", async () => {
    const foreign = { ...pod, otherInstallation: "muster-2" };
    const { deps, did } = world(undefined, { listObjects: () => Promise.resolve([foreign, { ...pod, uid: "p-2" }]) });
    await sweepOnce(deps, POLICY, never);
    expect(did).toEqual(["leave muster-2", "delete bench-driver"]);
  });

  it("sets the ledger's limit each time, and continues while the ledger is unavailable", async () => {
    let reported = 0;
    const away = new FaultError({ code: "unavailable", dependency: "reservation", retryAfterMs: 0 });
    const limitSessions = (): Promise<void> => {
      reported += 1;
      return Promise.reject(away);
    };
    const { deps, did } = world(makeRunning(over), { limitSessions });
    await sweepOnce(deps, POLICY, never);
    expect(reported).toBe(1);
    expect(did).toContain("release bench r-1");
  });

  it("wakes a session that the ledger no longer has in its queue", async () => {
    const { deps, did } = world(makeRecord({ reservationId: "r-1" }));
    await sweepOnce(deps, POLICY, never);
    expect(did).toEqual(["wake bench"]);
  });

  it("completes the clean-up of a session whose executor abandoned it", async () => {
    const { deps, did, stored } = world(makeRunning(over));
    await sweepOnce(deps, POLICY, never);
    expect(did).toEqual(["save", "release bench r-1", "save"]);
    expect(stored()).toMatchObject({ podsDeleted: true, released: true });
  });

  it("keeps the pod of a session that the list does not show yet", async () => {
    const { deps, did } = world(makeRunning(), { listObjects: () => Promise.resolve([pod]), digests: () => [] });
    await sweepOnce(deps, POLICY, never);
    expect(did).toEqual([]);
  });

  it("releases a replacement whose session the list does not show yet only if that session released its machines", async () => {
    const ownerId = `${buildReplacementPrefix(makeRunning())}-0`;
    const replacement = { kind: "replacement", uid: "r-9", ownerId, session: "bench", createdAtMs: START_MS } as const;
    for (const released of [false, true]) {
      const { deps, did } = world(makeRunning({ ...over, released }), {
        listObjects: () => Promise.resolve([replacement]),
        releaseReplacement: (id, uid) => Promise.resolve(void did.push(`release ${id} ${uid}`)),
        digests: () => [],
      });
      await sweepOnce(deps, POLICY, never);
      expect(did).toEqual(released ? [`release ${ownerId} r-9`] : []);
    }
  });

  it("deletes nothing that was recreated under an old name", async () => {
    const expired = makeRunning({ ...over, podsDeleted: true, released: true, finishedAtMs: 1 });
    const { deps, did } = world({ ...makeRunning(), uid: "u-2" }, {}, expired);
    await sweepOnce(deps, POLICY, never);
    expect(did).toEqual([]);
  });

  it("releases nothing based on an earlier session of the name", async () => {
    const listed = makeRunning({ ...over, podsDeleted: true });
    const newer = { ...listed, uid: "u-2" };
    const { deps, did } = world(newer, { digests: () => [buildDigest(listed)] });
    await sweepOnce(deps, POLICY, never);
    expect(did).toEqual([]);
    const unknown = world(newer, {
      digests: () => [],
      listObjects: () =>
        Promise.resolve([{ kind: "reservation", uid: "r-2", session: "bench", createdAtMs: START_MS, granted: true }]),
    });
    await sweepOnce(unknown.deps, POLICY, never);
    expect(unknown.did).toEqual([]);
  });

  it("changes nothing while the API server is unavailable", async () => {
    const away = () =>
      Promise.reject(new FaultError({ code: "unavailable", dependency: "kubernetes", retryAfterMs: 0 }));
    for (const listed of [makeRunning(), makeRunning(over), makeRecord({ reservationId: "r-1" })]) {
      const { deps, did } = world(listed, { listObjects: away });
      await sweepOnce(deps, POLICY, never);
      expect(did).toEqual([]);
    }
  });

  it("continues with the other steps if one fails", async () => {
    const away = () =>
      Promise.reject(new FaultError({ code: "unavailable", dependency: "kubernetes", retryAfterMs: 0 }));
    const { deps, did } = world(makeRunning(over), {
      listObjects: () => Promise.resolve([{ ...pod, session: "another", ownerUid: "u-0" }]),
      deletePod: away,
    });
    await sweepOnce(deps, POLICY, never);
    expect(did).toEqual(["save", "release bench r-1", "save"]);
  });

  it("reports each leftover that could not be removed, and removes the others", async () => {
    const away = new FaultError({ code: "unavailable", dependency: "kubernetes", retryAfterMs: 0 });
    const leftover = { ...pod, session: "another", ownerUid: "u-0" };
    const did: string[] = [];
    const warned: unknown[] = [];
    const { deps } = world(makeRunning(over), {
      logger: { ...silent, warn: (...line: unknown[]) => void warned.push(line) },
      listObjects: () => Promise.resolve([leftover, { ...leftover, pod: "another-server", uid: "p-2" }]),
      deletePod: ({ pod: name }) =>
        name === leftover.pod ? Promise.reject(away) : Promise.resolve(void did.push(name)),
    });
    await sweepOnce(deps, POLICY, never);
    expect(did).toEqual(["another-server"]);
    expect(warned).toContainEqual([
      { what: "session", uid: leftover.uid, err: away },
      "a leftover could not be removed",
    ]);
    expect(warned).not.toContainEqual([expect.anything(), "the sweep cannot list pods or reservations"]);
  });

  it("continues with the other sessions if the record of one cannot be read", async () => {
    const unreadable = () => Promise.reject(new FaultError({ code: "internal", operation: "reading session bench" }));
    const { deps, did } = world(makeRunning(over), {
      load: unreadable,
      digests: () => [buildDigest(makeRunning(over)), buildDigest(makeRecord({ name: "other", reservationId: "r-2" }))],
    });
    await sweepOnce(deps, POLICY, never);
    expect(did).toEqual(["wake other"]);
  });

  it("pauses between two sweeps for the given time, or until the pod of a finished session changes", async () => {
    const stop = new AbortController();
    const rests: number[] = [];
    let sweeps = 0;
    const { deps } = world(undefined, {
      limitSessions: () => Promise.resolve(void (sweeps += 1)),
      rest: (ms) => {
        rests.push(ms);
        if (rests.length === 3) stop.abort();
        return Promise.resolve(true);
      },
    });
    await sweepForever(deps, { ...POLICY, everyMs: 10 }, stop.signal);
    expect({ rests, sweeps }).toEqual({ rests: [0, 0, 0], sweeps: 3 });
  });

  it("continues after a defect, and logs it as an error", async () => {
    const stop = new AbortController();
    const lines: [string, unknown][] = [];
    const write = (level: string) => (fields: unknown) => lines.push([level, fields]);
    const logger = { ...silent, warn: write("warn"), error: write("error") } as unknown as SweepDeps["logger"];
    const defect = new Error("a defect");
    let sweeps = 0;
    const digests = () => {
      sweeps += 1;
      if (sweeps === 2) stop.abort();
      throw defect;
    };
    const { deps } = world(undefined, { digests, logger, rest: () => Promise.resolve(false) });
    await sweepForever(deps, { ...POLICY, everyMs: 1 }, stop.signal);
    expect(sweeps).toBe(2);
    expect(lines).toEqual([["error", { err: defect, failures: 1 }]]);
  });
});
