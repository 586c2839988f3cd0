import { KubeError } from "@muster/kube";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { KIND, nameOf, testJob, testMember } from "../../test/member-world.ts";
import { buildOwnerReference, type MemberObject } from "../domain/ownership.ts";
import { createMembers, deleteMembers } from "./change-members.ts";
import { makeExpectations, buildPodsKey } from "./expectations.ts";
import type { MemberCalls } from "./member-calls.ts";
import {
  createMember,
  deleteMember,
  type CreateOutcome,
  type DeleteOutcome,
  type MembersOfJob,
} from "./member-control.ts";
import { MAX_IN_FLIGHT, runWithSlowStart, type Continuation } from "./slow-start.ts";

const job = testJob("mnist");
const reference = buildOwnerReference(KIND, job.metadata);
const wanted = testMember("mnist", "worker", 0, { owner: job });

const exists = new KubeError("POST", 409, {
  reason: "AlreadyExists",
  details: { kind: "pods", name: "mnist-worker-0" },
});
const notFound = new KubeError("GET", 404, { reason: "NotFound" });
const timeout = Object.assign(new Error("no answer"), { name: "TimeoutError" });
const cut = new TypeError("fetch failed", { cause: Object.assign(new Error("reset"), { code: "ECONNRESET" }) });
const refusedConnection = Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
const quota = new KubeError("POST", 403, { reason: "Forbidden", message: "exceeded quota: small" });

type Answers = { create?: Error; get?: MemberObject | Error; delete?: Error };

/** Scripts the answers of the API server; each call succeeds by default. */
function world(answers: Answers) {
  const events: string[] = [];
  const asked: string[] = [];
  const answer = <Value>(call: string, value: Value | Error): Promise<Value> => {
    asked.push(call);
    return value instanceof Error ? Promise.reject(value) : Promise.resolve(value);
  };
  const calls: MemberCalls<MemberObject> = {
    create: (_namespace, body) => answer("create", answers.create ?? body),
    get: () => answer("get", answers.get ?? wanted),
    delete: (_namespace, _name, { uid }) => answer(`delete ${uid}`, answers.delete ?? {}),
    patch: () => Promise.reject(new Error("an unexpected patch")),
  };
  const control: MembersOfJob<MemberObject> = {
    kind: "Pod",
    calls,
    report: (type, reason, message) => events.push(`${type} ${reason}: ${message}`),
  };
  return { control, events, asked };
}

describe("creating a member", () => {
  it("reports its success", async () => {
    const { control, events } = world({});
    expect(await createMember(control, wanted)).toEqual({ did: "created", member: wanted });
    expect(events).toEqual(["Normal SuccessfulCreatePod: Created pod: mnist-worker-0"]);
  });

  it.each<[string, MemberObject, string]>([
    ["name", { metadata: { ...wanted.metadata, name: "" } }, "metadata.name"],
    ["labels", { metadata: { ...wanted.metadata, labels: {} } }, "metadata.labels"],
    ["owner", { metadata: { ...wanted.metadata, ownerReferences: [] } }, "owner reference"],
    [
      "an owner that manages it",
      { metadata: { ...wanted.metadata, ownerReferences: [{ ...reference, controller: false }] } },
      "owner reference.controller",
    ],
  ])("is refused without %s, before any call", async (_what, member, field) => {
    const { control, events, asked } = world({});
    const outcome = await createMember(control, member);
    expect(outcome).toMatchObject({ did: "refused", fault: { code: "invalid_request", field } });
    expect(asked).toEqual([]);
    expect(events).toEqual([expect.stringMatching(/^Warning FailedCreatePod: Error creating: /)]);
  });

  it.each<[string, Error]>([
    ["a time limit", timeout],
    ["a timeout of the server", new KubeError("POST", 504, { reason: "Timeout" })],
    ["a connection that broke", cut],
  ])("is read after %s, because it may exist", async (_what, error) => {
    const there = world({ create: error });
    expect(await createMember(there.control, wanted)).toMatchObject({ did: "created" });
    expect(there.events).toEqual(["Normal SuccessfulCreatePod: Created pod: mnist-worker-0"]);
    const silent = world({ create: error, get: timeout });
    expect(await createMember(silent.control, wanted)).toMatchObject({ did: "unknown" });
    expect(silent.events).toEqual([]);
  });

  it("is sent once more if its answer was lost and it does not exist, and then not again", async () => {
    const { control, events, asked } = world({ create: cut, get: notFound });
    expect(await createMember(control, wanted)).toMatchObject({ did: "unknown" });
    expect([asked, events]).toEqual([["create", "get", "create"], []]);
    const answers: (MemberObject | Error)[] = [cut, wanted];
    const calls: Pick<MemberCalls<MemberObject>, "get" | "create" | "delete"> = {
      create: () => {
        const next = answers.shift() ?? wanted;
        return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
      },
      get: () => Promise.reject(notFound),
      delete: () => Promise.resolve({}),
    };
    const lucky = { kind: "Pod", calls, report: () => undefined } as const;
    expect(await createMember(lucky, wanted)).toEqual({ did: "created", member: wanted });
  });

  it("is not sent once more by a process that may no longer create it", async () => {
    const { control, asked } = world({ create: timeout, get: notFound });
    const deposed = { ...control, mayRepeat: () => Promise.resolve(false) };
    expect(await createMember(deposed, wanted)).toMatchObject({ did: "unknown" });
    expect(asked).toEqual(["create", "get"]);
  });

  it.each<[string, Error, string]>([
    ["a quota", quota, "exceeded quota: small"],
    ["a server that is not there", refusedConnection, "kubernetes is not available"],
    ["a server that has too much to do", new KubeError("POST", 429, {}), "kubernetes is not available"],
  ])("is refused by %s, with an event that states the reason", async (_what, error, why) => {
    const { control, events } = world({ create: error });
    expect(await createMember(control, wanted)).toMatchObject({ did: "refused" });
    expect(events).toEqual([expect.stringContaining(why)]);
    expect(events).toEqual([expect.stringMatching(/^Warning FailedCreatePod: Error creating: mnist-worker-0: /)]);
  });

  it.each<[string, Answers["get"], CreateOutcome<MemberObject>["did"], number]>([
    ["is found when an earlier attempt made it", wanted, "found", 0],
    ["conflicts with an orphan", testMember("mnist", "worker", 0), "refused", 1],
    ["conflicts with another job's", testMember("mnist", "worker", 0, { owner: testJob("other") }), "refused", 1],
    [
      "conflicts with an earlier job's of the same name",
      testMember("mnist", "worker", 0, { owner: testJob("mnist", { uid: "earlier" }) }),
      "refused",
      1,
    ],
    ["conflicts with another replica", testMember("mnist", "worker", 7, { owner: job }), "refused", 1],
    [
      "waits for one that is being deleted",
      testMember("mnist", "worker", 0, { owner: job, deleting: true }),
      "refused",
      1,
    ],
    ["is left for the next pass when the other one goes meanwhile", notFound, "refused", 1],
  ])("that already exists %s", async (_what, get, did, warnings) => {
    const { control, events } = world({ create: exists, ...(get !== undefined && { get }) });
    const outcome = await createMember(control, wanted);
    expect(outcome.did).toBe(did);
    expect(events).toHaveLength(warnings);
    if (outcome.did === "refused" && get !== notFound) expect(outcome.fault.code).toBe("conflict");
  });

  it("throws a defect", async () => {
    const { control } = world({ create: new RangeError("a defect") });
    await expect(createMember(control, wanted)).rejects.toThrow(RangeError);
  });
});

describe("deleting a member", () => {
  it.each<[string, Answers, DeleteOutcome["did"], string[], string[]]>([
    [
      "deletes the object that was read",
      {},
      "deleted",
      ["get", "delete uid-of-mnist-worker-0"],
      ["Normal SuccessfulDeletePod: Deleted pod: mnist-worker-0"],
    ],
    ["has nothing to do when it is gone", { get: notFound }, "gone", ["get"], []],
    [
      "leaves alone another one of its name",
      { get: testMember("mnist", "worker", 0, { uid: "next" }) },
      "gone",
      ["get"],
      [],
    ],
    [
      "has nothing to do when it is on its way",
      { get: testMember("mnist", "worker", 0, { deleting: true }) },
      "leaving",
      ["get"],
      [],
    ],
    [
      "has nothing to do when it goes meanwhile",
      { delete: notFound },
      "gone",
      ["get", "delete uid-of-mnist-worker-0"],
      [],
    ],
    [
      "leaves alone one that took its name meanwhile",
      { delete: new KubeError("DELETE", 409, { reason: "Conflict" }) },
      "gone",
      ["get", "delete uid-of-mnist-worker-0"],
      [],
    ],
    ["does not know after a time limit", { delete: timeout }, "unknown", ["get", "delete uid-of-mnist-worker-0"], []],
  ])("%s", async (_what, answers, did, calls, reported) => {
    const { control, events, asked } = world(answers);
    expect((await deleteMember(control, wanted)).did).toBe(did);
    expect({ asked, events }).toEqual({ asked: calls, events: reported });
  });

  it("reports a refusal", async () => {
    const { control, events } = world({ delete: new KubeError("DELETE", 403, { message: "you may not" }) });
    expect(await deleteMember(control, wanted)).toMatchObject({ did: "refused" });
    expect(events).toEqual(["Warning FailedDeletePod: Error deleting: mnist-worker-0: permission: you may not"]);
  });
});

describe("a service", () => {
  it("has events of services", async () => {
    const events: string[] = [];
    const calls = {
      create: (_: string, body: MemberObject) => Promise.resolve(body),
      get: () => Promise.resolve(wanted),
      delete: () => Promise.resolve(),
    };
    const services: MembersOfJob<MemberObject> = {
      kind: "Service",
      calls,
      report: (_type, reason) => events.push(reason),
    };
    await createMember(services, wanted);
    await deleteMember(services, wanted);
    expect(events).toEqual(["SuccessfulCreateService", "SuccessfulDeleteService"]);
  });
});

describe("a slow start", () => {
  it("continues in batches that double, up to a limit of items in flight", async () => {
    const batches: number[] = [];
    let under = 0;
    let most = 0;
    let begunTogether = 0;
    await runWithSlowStart(Array.from({ length: 100 }), async () => {
      under += 1;
      begunTogether += 1;
      most = Math.max(most, under);
      await new Promise(setImmediate);
      under -= 1;
      if (under === 0) batches.push(begunTogether);
      if (under === 0) begunTogether = 0;
      return "go-on" as const;
    });
    expect(batches.slice(0, 5)).toEqual([1, 2, 4, 8, 16]);
    expect(most).toBe(MAX_IN_FLIGHT);
  });

  it("begins each item at most once and in order, and returns exactly the others", async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(120), fc.option(fc.nat(120), { nil: undefined }), async (length, stopAt) => {
        const items = Array.from({ length }, (_, index) => index);
        const begun: number[] = [];
        const untried = await runWithSlowStart(items, (item): Promise<Continuation> => {
          begun.push(item);
          return Promise.resolve(item === stopAt ? "stop" : "go-on");
        });
        expect([...begun, ...untried]).toEqual(items);
        if (stopAt === undefined || stopAt >= length) expect(untried).toEqual([]);
        else expect(begun.length).toBeLessThanOrEqual(stopAt + MAX_IN_FLIGHT);
      }),
    );
  });

  it("begins nothing if it is already stopped", async () => {
    const untried = await runWithSlowStart([1, 2], () => Promise.reject(new Error("begun")), AbortSignal.abort());
    expect(untried).toEqual([1, 2]);
  });

  it("throws an error only after all begun items have ended", async () => {
    let ended = 0;
    const running = runWithSlowStart([0, 1, 2, 3], async (item) => {
      if (item === 1) throw new Error("a defect");
      await new Promise(setImmediate);
      ended += 1;
      return "go-on" as const;
    });
    await expect(running).rejects.toThrow("a defect");
    expect(ended).toBe(2);
  });
});

const KEY = buildPodsKey("uid-of-mnist", "worker");
const fault = { code: "unavailable", dependency: "kubernetes", retryAfterMs: 0 } as const;

describe("many members", () => {
  const created = fc.constantFrom<CreateOutcome<MemberObject>["did"]>(
    "created",
    "created",
    "created",
    "found",
    "unknown",
    "refused",
  );

  it("are expected exactly while an event for them may still arrive", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(created, { maxLength: 40 }), async (outcomes) => {
        const expectations = makeExpectations();
        const members = outcomes.map((_, index) => testMember("mnist", "worker", index));
        const tried: CreateOutcome<MemberObject>["did"][] = [];
        const expected: string[] = [];
        const create = (member: MemberObject): Promise<CreateOutcome<MemberObject>> => {
          expect(expectations.outstanding(KEY).creations).toContain(nameOf(member));
          const did = outcomes[members.indexOf(member)] ?? "refused";
          tried.push(did);
          if (did === "created" || did === "unknown") expected.push(nameOf(member));
          return Promise.resolve(did === "created" || did === "found" ? { did, member } : { did, fault });
        };
        const report = await createMembers(members, create, { expectations, key: KEY });
        expect([...expectations.outstanding(KEY).creations].sort()).toEqual(expected.sort());
        const count = (...dids: string[]) => tried.filter((did) => dids.includes(did)).length;
        expect(report).toEqual({
          done: count("created", "found"),
          unknown: count("unknown"),
          refused: tried.filter((did) => did === "refused").map(() => fault),
          untried: members.length - tried.length,
        });
        if (!outcomes.includes("refused")) expect(report.untried).toBe(0);
      }),
    );
  });

  it("without an answer are requested again after a minute", async () => {
    let nowMs = 0;
    const expectations = makeExpectations(() => nowMs);
    await createMembers([wanted], () => Promise.resolve({ did: "unknown", fault }), { expectations, key: KEY });
    nowMs = 59_999;
    expect(expectations.satisfied(KEY)).toBe(false);
    nowMs = 60_000;
    expect(expectations.satisfied(KEY)).toBe(true);
  });

  it("that a quota refuses are requested once, and do not stay expected", async () => {
    const expectations = makeExpectations();
    let asked = 0;
    const refuse = () => {
      asked += 1;
      return Promise.resolve({ did: "refused", fault } as const);
    };
    const members = Array.from({ length: 1000 }, (_, index) => testMember("mnist", "worker", index));
    const report = await createMembers(members, refuse, { expectations, key: KEY });
    expect([asked, report.untried, expectations.size()]).toEqual([1, 999, 0]);
  });

  it("whose names are taken do not prevent the creation of the others", async () => {
    const expectations = makeExpectations();
    const taken = { code: "conflict", id: "Pod team/mnist-worker-1", expectedRevision: 0, actualRevision: 0 } as const;
    const members = [0, 1, 2, 3].map((index) => testMember("mnist", "worker", index));
    const create = (member: MemberObject): Promise<CreateOutcome<MemberObject>> =>
      Promise.resolve(member === members[1] ? { did: "refused", fault: taken } : { did: "created", member });
    const report = await createMembers(members, create, { expectations, key: KEY });
    expect(report).toEqual({ done: 3, unknown: 0, refused: [taken], untried: 0 });
    expect(expectations.outstanding(KEY).creations).not.toContain("mnist-worker-1");
  });

  it("leave nothing expected after a defect that was never sent", async () => {
    const expectations = makeExpectations();
    const running = createMembers([wanted], () => Promise.reject(new Error("a defect")), { expectations, key: KEY });
    await expect(running).rejects.toThrow("a defect");
    expect(expectations.size()).toBe(0);
  });

  it("are deleted unless they are being deleted, and a failed deletion does not prevent the others", async () => {
    const expectations = makeExpectations();
    const dids: DeleteOutcome["did"][] = ["deleted", "refused", "gone", "leaving", "unknown", "deleted"];
    const members = [
      ...dids.map((did, index) => testMember("mnist", "worker", index, { uid: `${did}-${index}` })),
      testMember("mnist", "worker", 6, { deleting: true }),
    ];
    const remove = (member: MemberObject): Promise<DeleteOutcome> => {
      const did = dids.find((each) => member.metadata?.uid?.startsWith(each)) ?? "gone";
      return Promise.resolve(did === "refused" || did === "unknown" ? { did, fault } : { did });
    };
    const report = await deleteMembers(members, remove, { expectations, key: KEY });
    expect(report).toEqual({ done: 4, unknown: 1, refused: [fault], untried: 0 });
    expect(expectations.outstanding(KEY).deletions).toEqual(["deleted-0", "deleted-5"]);
  });
});
