import { listForeign, planSweep } from "@muster/ledger-client/plan-sweep";
import { describe, expect, it } from "vitest";
import {
  attributeObject,
  planRecords,
  decideStanding,
  type OwnedPod,
  type OwnedReplacement,
  type OwnedReservation,
  type SessionDigest,
} from "./plan-sweep.ts";
import { buildReplacementPrefix } from "./replacement-owner.ts";

const NOW = 10_000_000;
const POLICY = { leakAgeMs: 60_000, nodeLostMs: 60_000 };

function session(more: Partial<SessionDigest> = {}): SessionDigest {
  return {
    name: "bench",
    uid: "u-1",
    finishedAtMs: NOW - 1000,
    ttlMs: 5000,
    podsDeleted: true,
    released: true,
    reservationId: "r-1",
    queued: false,
    queuedUntilMs: NOW + 1000,
    cancelRequested: false,
    ...more,
  };
}

function pod(more: Partial<OwnedPod> = {}): OwnedPod {
  return {
    kind: "pod",
    pod: "bench-driver",
    uid: "p-1",
    session: "bench",
    ownerUid: "u-1",
    otherInstallation: undefined,
    deleting: false,
    overdueOn: undefined,
    createdAtMs: NOW - 1000,
    ...more,
  };
}

function replacement(more: Partial<OwnedReplacement> = {}): OwnedReplacement {
  const { name, uid } = session();
  const ownerId = `${buildReplacementPrefix({ name, uid })}-0`;
  return { kind: "replacement", uid: "r-9", ownerId, session: "bench", createdAtMs: NOW, ...more };
}

type World = {
  readonly sessions?: readonly SessionDigest[];
  readonly pods?: readonly OwnedPod[];
  readonly reservations?: readonly OwnedReservation[];
  readonly replacements?: readonly OwnedReplacement[];
};

function see({ sessions = [], pods = [], reservations = [], replacements = [] }: World) {
  const snapshot = {
    nowMs: NOW,
    sessions,
    objects: attributeObject([...pods, ...reservations, ...replacements], sessions),
  };
  return { snapshot, standingOf: decideStanding(snapshot, POLICY) };
}

function steps(world: World): string[] {
  const { snapshot, standingOf } = see(world);
  const records = planRecords(snapshot).map((step) => {
    const what = step.kind === "release" ? ` ${step.reservationId || "nothing"}` : "";
    return `${step.kind}${what} ${step.because}`;
  });
  const memory = { leftSince: new Map(), nowMs: NOW, graceMs: undefined };
  const objects = planSweep(snapshot.objects, standingOf, memory).flatMap(({ kind: what, object, because }) => {
    if (what !== "remove") return [];
    if (object.kind === "replacement") return `release-replacement ${because}`;
    if (object.kind === "reservation") return `release ${object.uid} ${because}`;
    return `delete-pod${object.deleting ? " by force" : ""} ${because}`;
  });
  return [...records, ...objects];
}

describe("a sweep", () => {
  it.each<[string, World, string[]]>([
    ["leaves a session alone that is not over", { sessions: [session({ finishedAtMs: 0 })] }, []],
    ["leaves the pods of a running session alone", { sessions: [session({ finishedAtMs: 0 })], pods: [pod()] }, []],
    [
      "keeps the replacement of a lost machine while its session is not over",
      { sessions: [session({ finishedAtMs: 0 })], replacements: [replacement({ createdAtMs: 0 })] },
      [],
    ],
    [
      "releases the replacement that a session left behind which is over",
      { sessions: [session()], replacements: [replacement()] },
      ["release-replacement session-over"],
    ],
    [
      "keeps it while a pod of the session may be on it",
      { sessions: [session()], pods: [pod()], replacements: [replacement()] },
      ["delete-pod session-over"],
    ],
    [
      "releases the replacement of an earlier session of the name, once it is old",
      {
        sessions: [session({ finishedAtMs: 0 })],
        replacements: [replacement({ ownerId: "bench--another-0", createdAtMs: NOW - 60_000 })],
      },
      ["release-replacement session-unknown"],
    ],
    ["leaves a young one alone, whose session it may not have heard of yet", { replacements: [replacement()] }, []],
    ["leaves a finished session alone until its time is over", { sessions: [session()] }, []],
    ["expires a session whose time is over", { sessions: [session({ ttlMs: 1000 })] }, ["expire ttl-over"]],
    [
      "never expires a session that holds machines",
      { sessions: [session({ ttlMs: 1000, released: false })] },
      ["release r-1 session-over"],
    ],
    [
      "deletes the pods of a session that is over",
      { sessions: [session()], pods: [pod()] },
      ["delete-pod session-over"],
    ],
    [
      "waits with the release while pods are going away",
      { sessions: [session({ podsDeleted: false, released: false })], pods: [pod({ deleting: true })] },
      [],
    ],
    [
      "forces a pod away that a lost node keeps, and releases only when it is gone",
      {
        sessions: [session({ podsDeleted: false, released: false })],
        pods: [pod({ deleting: true, overdueOn: { state: "not-ready", sinceMs: NOW - 60_000 } })],
      },
      ["delete-pod by force node-not-ready"],
    ],
    [
      "leaves a lost pod of a session that runs to its executor",
      { sessions: [session({ finishedAtMs: 0 })], pods: [pod({ deleting: true, overdueOn: { state: "gone" } })] },
      [],
    ],
    [
      "releases once no pod is listed",
      { sessions: [session({ podsDeleted: false, released: false })] },
      ["confirm-pods-gone none-listed", "release r-1 session-over"],
    ],
    [
      "releases the listed machines rather than those of the record",
      {
        sessions: [session({ released: false })],
        reservations: [{ kind: "reservation", uid: "r-9", session: "bench", createdAtMs: NOW, granted: true }],
      },
      ["release r-9 session-over"],
    ],
    [
      "only notes the release of a session that never had a reservation",
      { sessions: [session({ released: false, reservationId: "" })] },
      ["release nothing session-over"],
    ],
    [
      "deletes an old pod of an unknown session",
      { pods: [pod({ createdAtMs: NOW - 60_000 })] },
      ["delete-pod session-unknown"],
    ],
    ["leaves a young pod of an unknown session alone", { pods: [pod()] }, []],
    [
      "deletes a pod of an earlier session of the same name",
      { sessions: [session({ finishedAtMs: 0 })], pods: [pod({ ownerUid: "u-0" })] },
      ["delete-pod other-generation"],
    ],
    [
      "releases an old reservation of an unknown session",
      {
        reservations: [{ kind: "reservation", uid: "r-9", session: "gone", createdAtMs: NOW - 60_000, granted: true }],
      },
      ["release r-9 session-unknown"],
    ],
    [
      "leaves a young reservation of an unknown session alone",
      { reservations: [{ kind: "reservation", uid: "r-9", session: "gone", createdAtMs: NOW, granted: true }] },
      [],
    ],
    [
      "leaves the machines of an unknown session held while a pod is on them",
      {
        pods: [pod({ deleting: true })],
        reservations: [{ kind: "reservation", uid: "r-9", session: "bench", createdAtMs: 0, granted: true }],
      },
      [],
    ],
    [
      "releases what a finished session holds again",
      {
        sessions: [session()],
        reservations: [{ kind: "reservation", uid: "r-9", session: "bench", createdAtMs: NOW, granted: true }],
      },
      ["release r-9 session-over"],
    ],
    [
      "leaves the machines of a running session alone",
      {
        sessions: [session({ finishedAtMs: 0, released: false })],
        reservations: [{ kind: "reservation", uid: "r-9", session: "bench", createdAtMs: 0, granted: true }],
      },
      [],
    ],
  ])("%s", (_title, world, expected) => {
    expect(steps(world)).toEqual(expected);
  });

  const foreign = pod({ createdAtMs: 0, otherInstallation: "muster-2" });
  const theirs = pod({ ...foreign, ownerUid: "u-0" });
  it.each<[string, World, string[], number]>([
    ["the old pod of a session that is unknown here", { pods: [foreign] }, [], 1],
    ["one that a lost node keeps", { pods: [{ ...foreign, deleting: true, overdueOn: { state: "gone" } }] }, [], 1],
    [
      "one whose session has the name of ours, which runs",
      { sessions: [session({ finishedAtMs: 0 })], pods: [theirs] },
      [],
      1,
    ],
    [
      "one whose session has the name of ours, and does not wait for it to go",
      { sessions: [session({ released: false })], pods: [theirs] },
      ["release r-1 session-over"],
      1,
    ],
  ])("keeps a pod of another installation: %s", (_title, world, expected, left) => {
    expect(steps(world)).toEqual(expected);
    const { snapshot, standingOf } = see(world);
    expect(listForeign(snapshot.objects, standingOf)).toHaveLength(left);
  });

  it("treats a pod as ours if it names the uid of a session that is stored here, whatever installation it names", () => {
    expect(steps({ sessions: [session()], pods: [foreign] })).toEqual(["delete-pod session-over"]);
  });
});

describe("a session that waits at the ledger", () => {
  const queued = session({ finishedAtMs: 0, queued: true });
  const waiting: OwnedReservation = {
    kind: "reservation",
    uid: "r-1",
    session: "bench",
    createdAtMs: NOW - 1000,
    granted: false,
  };

  it.each<[string, World, string[]]>([
    ["is left there", { sessions: [queued], reservations: [waiting] }, []],
    [
      "is run when its machines are granted",
      { sessions: [queued], reservations: [{ ...waiting, granted: true }] },
      ["run not-queued-any-more"],
    ],
    ["is run when the ledger does not know it", { sessions: [queued] }, ["run not-queued-any-more"]],
  ])("%s", (_title, world, expected) => {
    expect(steps(world)).toEqual(expected);
  });
});
