import { FaultError, findFault } from "@muster/faults";
import { NO_ANSWERS } from "@muster/ledger-client";
import { buildSessionElsewhereId } from "@muster/names";
import { makeModify } from "@muster/store";
import { beforeEach, describe, expect, it } from "vitest";
import { makeDraft, makeRecord, makeRunning, START_MS } from "../test/samples.ts";
import type { SessionRecord } from "./domain/session.ts";
import { makeFollowers } from "./followers.ts";
import {
  cancelSession,
  explainStoredSession,
  addWaitReason,
  getSession,
  listSessions,
  readSessionLog,
  removeSession,
  checkSession,
  submitSession,
  watchSession,
  type RequestDeps,
} from "./requests.ts";
import type { StoredSession } from "./session-deps.ts";

const DEFAULTS = { timeoutMs: 900_000, queueTimeoutMs: 1e6, ttlMs: 1e6, killAfterMs: 5000, workerPort: 10_000 };
const POLICY = { defaults: DEFAULTS, poolLabel: "pool", limits: { maxUnfinished: 2, maxStoredBytes: 1000 } };
const never = new AbortController().signal;

let stored: Map<string, StoredSession>;
let did: string[];
const followers = makeFollowers();

beforeEach(() => {
  stored = new Map();
  did = [];
});

function put(value: SessionRecord, revision = 1): void {
  stored.set(value.name, { record: value, revision });
}

function deps(more: Partial<RequestDeps> = {}): RequestDeps {
  const { load = (name: string) => Promise.resolve(stored.get(name)) } = more;
  return {
    now: () => START_MS,
    newUid: () => "u-new",
    traceparent: () => "00-trace",
    executor: () => undefined,
    load,
    create: async (value) => {
      await Promise.resolve();
      if (stored.has(value.name)) throw new FaultError({ code: "already_exists", kind: "key", id: value.name });
      put(value);
      return 1;
    },
    modify: makeModify<SessionRecord, SessionRecord>({
      get: async (key) => {
        const found = await load(key);
        return found && { key, value: found.record, revision: found.revision };
      },
      create: () => Promise.reject(new Error("a request creates no other session")),
      update: async (key, value, revision) => {
        await Promise.resolve();
        const actualRevision = stored.get(key)?.revision ?? 0;
        if (actualRevision !== revision) {
          throw new FaultError({ code: "conflict", id: key, expectedRevision: revision, actualRevision });
        }
        put(value, revision + 1);
        return revision + 1;
      },
      delete: () => Promise.reject(new Error("a request deletes by `forget`")),
    }),
    occupancy: () => ({ unfinished: 0, storedBytes: 0 }),
    explain: () => Promise.resolve(undefined),
    checkMachines: () => Promise.resolve(undefined),
    askMachines: () => Promise.resolve(NO_ANSWERS),
    announce: (value, from) => Promise.resolve(void did.push(`announce ${value.name} from ${from}`)),
    finished: (value) => void did.push(`count ${value.name}`),
    forget: ({ record: { name } }) => Promise.resolve(void stored.delete(name)),
    namespace: "default",
    servesNamespace: (name) => name === "default",
    namesAfter: (name) => [...stored.keys()].filter((key) => key > name).sort(),
    follow: (name) => followers.follow(name),
    keptLog: (_name, { offset }) =>
      Promise.resolve({ bytes: Buffer.from("kept"), nextOffset: offset + 4, complete: true, truncated: false }),
    followedLog: (_name, _range, waitMs) => Promise.resolve(Buffer.from(`after ${waitMs}`)),
    liveLog: () => Promise.resolve(Buffer.from("live")),
    sizeOf: () => 1000,
    ...more,
  };
}

async function faultFrom(work: Promise<unknown>) {
  return findFault(await work.catch((error: unknown) => error));
}

describe("submit", () => {
  const request = { requestId: "r-1", name: "bench", draft: makeDraft() };

  it("stores the session before anything else, with its first event and its trace", async () => {
    const { record: made } = await submitSession(deps(), POLICY, request);
    expect(made).toMatchObject({ uid: "u-new", traceparent: "00-trace", epoch: 0 });
    expect(made.events).toEqual([{ kind: "QUEUE", atMs: START_MS, description: "submitted", reason: "" }]);
    expect(stored.get("bench")?.record).toBe(made);
  });

  it("takes the session over in the write that stores it, if the leader accepts it", async () => {
    const { record: made } = await submitSession(
      deps({ executor: () => ({ token: 7, executor: "a" }) }),
      POLICY,
      request,
    );
    expect(stored.get("bench")?.record).toBe(made);
    expect(made).toMatchObject({ epoch: 7, executor: "a", attempts: 1 });
  });

  it("returns the same session for the same request", async () => {
    await submitSession(deps(), POLICY, request);
    const again = await submitSession(deps({ newUid: () => "u-other" }), POLICY, request);
    expect(again.record.uid).toBe("u-new");
  });

  it.each([
    ["another session that runs", makeRunning({ requestId: "r-0" })],
    ["another session that is over", makeRunning({ requestId: "r-0", finishedAtMs: START_MS })],
  ])("creates no second session under the name of %s", async (_title, other) => {
    put(other);
    expect(await faultFrom(submitSession(deps(), POLICY, request))).toMatchObject({
      code: "already_exists",
      kind: "session",
    });
    expect(did).toEqual([]);
  });

  it.each([
    ["number of unfinished sessions", { unfinished: 2, storedBytes: 0 }, 2],
    ["size of all stored sessions in bytes", { unfinished: 0, storedBytes: 1000 }, 1000],
  ])("refuses a session over the %s with the time of a retry", async (what, occupied, limit) => {
    const fault = await faultFrom(submitSession(deps({ occupancy: () => occupied }), POLICY, request));
    expect(fault).toEqual({ code: "limit_exceeded", what, limit, retryAfterMs: 10_000 });
    expect(stored.size).toBe(0);
  });

  it("returns the same session for the same request also without room for another", async () => {
    const { record: made } = await submitSession(deps(), POLICY, request);
    const full = deps({ occupancy: () => ({ unfinished: 2, storedBytes: 0 }) });
    expect((await submitSession(full, POLICY, request)).record).toBe(made);
  });

  it("states from the beginning what the session waits for", async () => {
    const { record: made } = await submitSession(deps(), POLICY, request);
    expect(made.waitingBecause).toBe("the session controller has not taken it yet");
  });

  it("needs a request id", async () => {
    const fault = await faultFrom(submitSession(deps(), POLICY, { ...request, requestId: "" }));
    expect(fault).toMatchObject({ code: "invalid_request", field: "request_id" });
  });
});

describe("check", () => {
  const request = { name: "bench", draft: makeDraft() };

  it("returns the session as a submission would store it, and stores nothing", async () => {
    const { record: checked } = await checkSession(deps(), POLICY, request);
    expect(stored.size).toBe(0);
    const { record: made } = await submitSession(deps(), POLICY, { ...request, requestId: "r-1" });
    const unset = { uid: "", requestId: "", traceparent: "", waitingBecause: "" };
    expect(checked).toEqual({ ...made, ...unset });
  });

  it("states why the session would wait for machines, or refuses it for the reason for which it would end", async () => {
    const because = { code: "POOL_AVAILABILITY", pool: "gpu", requested: 2, available: 1, ahead: 0 } as const;
    const waiting = deps({ checkMachines: () => Promise.resolve(because) });
    const checked = await checkSession(waiting, POLICY, request);
    expect([checked.waitingCode, checked.record.waitingBecause]).toEqual([
      "POOL_AVAILABILITY",
      expect.stringContaining("pool gpu has 1 machine"),
    ]);
    const unknown = new FaultError({ code: "pool_unknown", pool: "gpus" });
    const refusing = deps({ checkMachines: () => Promise.reject(unknown) });
    expect(await faultFrom(checkSession(refusing, POLICY, request))).toEqual(unknown.fault);
  });

  it.each<[string, Partial<typeof request>, unfinished: number]>([
    ["without components", { draft: makeDraft({ components: [] }) }, 0],
    ["with an invalid name", { name: "Bench" }, 0],
    ["with a name that is taken", { name: "taken" }, 0],
    ["over a limit", {}, 2],
  ])("refuses a session %s as a submission does", async (_title, changed, unfinished) => {
    put(makeRunning({ name: "taken", requestId: "r-0" }));
    const limited = deps({ occupancy: () => ({ unfinished, storedBytes: 0 }) });
    const asked = { ...request, ...changed };
    const refused = await faultFrom(checkSession(limited, POLICY, asked));
    expect(refused).toBeDefined();
    expect(refused).toEqual(await faultFrom(submitSession(limited, POLICY, { ...asked, requestId: "r-1" })));
  });
});

describe("cancel", () => {
  it("immediately ends a session that no executor has taken", async () => {
    put(makeRecord({ epoch: 0, executor: "" }));
    const { record: ended } = await cancelSession(deps(), { name: "bench" });
    expect(ended).toMatchObject({ finishedAtMs: START_MS, released: true });
    expect(ended.events.map(({ kind }) => kind)).toEqual(["QUEUE", "CANCELLED"]);
    expect(did).toEqual(["count bench", "announce bench from 0"]);
  });

  it("announces unpublished events at a retry after a failure", async () => {
    put(makeRecord({ epoch: 0, executor: "" }));
    const unavailable = () =>
      Promise.reject(new FaultError({ code: "unavailable", dependency: "nats", retryAfterMs: 500 }));
    expect(await faultFrom(cancelSession(deps({ announce: unavailable }), { name: "bench" }))).toMatchObject({
      code: "unavailable",
    });
    await cancelSession(deps(), { name: "bench" });
    expect(did).toEqual(["count bench", "announce bench from 0"]);
  });

  it("leaves the end of a running session to its executor", async () => {
    put(makeRunning());
    expect((await cancelSession(deps(), { name: "bench" })).record).toMatchObject({
      cancelRequested: true,
      finishedAtMs: 0,
    });
  });

  it("changes nothing about a finished session", async () => {
    put(makeRunning({ finishedAtMs: 1 }), 7);
    expect((await cancelSession(deps(), { name: "bench" })).revision).toBe(7);
  });

  it("retries if the executor wrote first", async () => {
    put(makeRunning(), 3);
    const loads = [{ record: makeRunning(), revision: 2 }];
    const { revision } = await cancelSession(
      deps({ load: (name) => Promise.resolve(loads.shift() ?? stored.get(name)) }),
      { name: "bench" },
    );
    expect(revision).toBe(4);
  });
});

describe("explained", () => {
  const because = { code: "POOL_AVAILABILITY", pool: "gpu", requested: 1, available: 0, ahead: 3 } as const;
  const ahead = () => deps({ explain: () => Promise.resolve(because) });
  const text = "pool gpu has 0 machines free, 1 are needed; 3 requests are ahead";

  it("shows the ledger's present reason of a session that waits there", async () => {
    const waiting = {
      record: makeRecord({ reservationId: "r-1", waitingBecause: "9 requests are ahead" }),
      revision: 4,
    };
    expect(await addWaitReason(ahead(), waiting)).toMatchObject({
      record: { waitingBecause: text },
      revision: 4,
      waitingCode: "POOL_AVAILABILITY",
    });
  });

  it("shows the ledger's prediction for a session that no executor has taken", async () => {
    const submitted = {
      record: makeRecord({ epoch: 0, waitingBecause: "no executor has looked at it yet" }),
      revision: 1,
    };
    expect(await addWaitReason(ahead(), submitted)).toMatchObject({
      record: { waitingBecause: text },
      waitingCode: "POOL_AVAILABILITY",
    });
  });

  it("shows the stored reason while the ledger does not answer, and for a session that does not wait there", async () => {
    const waiting = {
      record: makeRecord({ reservationId: "r-1", waitingBecause: "9 requests are ahead" }),
      revision: 4,
    };
    expect(await addWaitReason(deps(), waiting)).toBe(waiting);
    const other = { record: makeRunning(), revision: 4 };
    expect(await addWaitReason(ahead(), other)).toBe(other);
  });
});

describe("list", () => {
  const names = Array.from({ length: 70 }, (_, index) => `s-${String(index).padStart(2, "0")}`);

  async function pages(limit: number, more: Partial<RequestDeps> = {}): Promise<string[][]> {
    for (const name of names) put(makeRecord({ name }));
    const found: string[][] = [];
    let after = "";
    do {
      const { sessions, next } = await listSessions(deps(more), { limit, after });
      found.push(sessions.map((each) => each.record.name));
      after = next;
    } while (after !== "");
    return found;
  }

  it("lists every session once, in order, for every page size", async () => {
    for (const limit of [0, 1, 7, 69, 70, 1000]) expect((await pages(limit)).flat()).toEqual(names);
  });

  it("ends a page that would not fit into a reply, but never returns an empty one", async () => {
    const large = await pages(0, { sizeOf: () => 200_000 });
    expect(large.flat()).toEqual(names);
    expect(Math.max(...large.map((page) => page.length))).toBe(2);
    const huge = await pages(0, { sizeOf: () => 2_000_000 });
    expect(huge.map((page) => page.length)).toEqual(names.map(() => 1));
  });

  it("skips a session that has just expired", async () => {
    const page = await pages(0, { load: (name) => Promise.resolve(name === "s-03" ? undefined : stored.get(name)) });
    expect(page.flat()).toEqual(names.filter((name) => name !== "s-03"));
  });
});

describe("watch", () => {
  it("answers immediately if the session differs already", async () => {
    put(makeRunning(), 5);
    expect((await watchSession(deps(), { name: "bench", afterRevision: 4, waitMs: 30_000 }, never)).revision).toBe(5);
  });

  it("answers when the session changes", async () => {
    put(makeRunning(), 5);
    const watching = watchSession(deps(), { name: "bench", afterRevision: 5, waitMs: 30_000 }, never);
    put(makeRunning({ cancelRequested: true }), 6);
    followers.changed("bench", 6);
    expect((await watching).revision).toBe(6);
  });

  it("answers with the present state when the caller cancels", async () => {
    put(makeRunning(), 5);
    const stop = new AbortController();
    const watching = watchSession(deps(), { name: "bench", afterRevision: 5, waitMs: 30_000 }, stop.signal);
    stop.abort();
    expect((await watching).revision).toBe(5);
  });
});

describe("readLog", () => {
  const request = { name: "bench", component: "driver", container: "", offset: 2, limitBytes: 0, waitMs: 0 };

  it("shows the present output of a running container", async () => {
    put(makeRunning());
    expect(await readSessionLog(deps(), request, never)).toMatchObject({ nextOffset: 6, complete: false });
  });

  it("waits for new output of a followed container, up to the request's limit", async () => {
    put(makeRunning());
    const part = await readSessionLog(deps(), { ...request, waitMs: 60_000 }, never);
    expect([Buffer.from(part.bytes).toString(), part.nextOffset]).toEqual(["after 30000", 13]);
  });

  it("shows an empty log for a container that has not started, or whose pod has just been removed", async () => {
    put(makeRunning());
    for (const fault of [
      { code: "invalid_request", field: "request", reason: "waiting to start" } as const,
      { code: "not_found", kind: "pods", id: "bench-driver" } as const,
    ]) {
      const part = await readSessionLog(deps({ liveLog: () => Promise.reject(new FaultError(fault)) }), request, never);
      expect(part).toMatchObject({ nextOffset: 2, complete: false });
    }
  });

  it("shows the stored log as soon as it is stored", async () => {
    put(makeRunning({ logsCollected: true }));
    expect(await readSessionLog(deps(), request, never)).toMatchObject({ complete: true });
  });
});

describe("remove", () => {
  const finished = makeRunning({ finishedAtMs: START_MS, podsDeleted: true, released: true });

  it("deletes a finished session, and frees its name", async () => {
    put(finished);
    expect((await removeSession(deps(), { name: "bench", uid: finished.uid })).record).toBe(finished);
    expect(await faultFrom(removeSession(deps(), { name: "bench", uid: "" }))).toMatchObject({ code: "not_found" });
    await submitSession(deps(), POLICY, { requestId: "r-2", name: "bench", draft: makeDraft() });
  });

  it.each<[string, SessionRecord, string]>([
    ["that runs, and names the next step", makeRunning(), "session bench is not finished; cancel it first"],
    ["that still has machines", { ...finished, released: false }, "still has pods or machines"],
    [
      "whose machines are free and whose pods are not gone",
      { ...finished, podsDeleted: false },
      "still has pods or machines",
    ],
  ])("refuses a session %s", async (_title, value, reason) => {
    put(value);
    const fault = await faultFrom(removeSession(deps(), { name: "bench", uid: "" }));
    expect(fault).toMatchObject({ code: "invalid_request", field: "name" });
    expect(fault).toHaveProperty("reason", expect.stringContaining(reason));
    expect(stored.has("bench")).toBe(true);
  });

  it("deletes no later session of the same name", async () => {
    put(finished);
    expect(await faultFrom(removeSession(deps(), { name: "bench", uid: "u-earlier" }))).toMatchObject({
      code: "not_found",
    });
    expect(stored.has("bench")).toBe(true);
  });
});

describe("explaining a session", () => {
  it("names the ledger's reason, and that the ledger could not be asked", async () => {
    put(makeRecord());
    const away = deps({
      askMachines: () => Promise.resolve({ ...NO_ANSWERS, ledgerTrouble: "no replica of it answers" }),
    });
    expect(await explainStoredSession(away, { name: "bench" })).toMatchObject({
      kind: "session",
      name: "bench",
      phase: "QUEUE",
      isOver: false,
      reasons: [{ code: "NOT_TAKEN_YET" }, { code: "LEDGER_AWAY" }],
    });
  });

  it("asks no other service about a finished session", async () => {
    put(makeRecord({ events: [{ kind: "DONE", atMs: 7, description: "", reason: "" }], finishedAtMs: 7 }));
    const refused = deps({ askMachines: () => Promise.reject(new Error("asked")) });
    expect(await explainStoredSession(refused, { name: "bench" })).toMatchObject({
      isOver: true,
      sinceMs: 7,
      reasons: [{ code: "FINISHED" }],
    });
  });
});

describe("a session in another namespace", () => {
  const here = { name: "bench" };
  const there = { name: "bench", namespace: "team-a" };
  const submission = { requestId: "r-there", ...there, draft: makeDraft() };
  const serving = (more: Partial<RequestDeps> = {}): RequestDeps => deps({ servesNamespace: () => true, ...more });
  const idOf = buildSessionElsewhereId(there);

  it("is another one than that of its name in the own namespace, which may be named or not", async () => {
    const own = await submitSession(serving(), POLICY, { ...submission, requestId: "r-own", namespace: "default" });
    const other = await submitSession(serving(), POLICY, submission);
    expect([own.record.name, own.record.elsewhere]).toEqual(["bench", undefined]);
    expect(other.record).toMatchObject({ name: idOf, elsewhere: there });
    expect(other.record.components[0]?.pod).toBe("bench-driver");
    expect((await getSession(serving(), here)).record.requestId).toBe("r-own");
    expect((await getSession(serving(), { ...here, namespace: "default" })).record.requestId).toBe("r-own");
    expect((await getSession(serving(), there)).record.requestId).toBe("r-there");
    await cancelSession(serving(), there);
    expect((await getSession(serving(), here)).record.finishedAtMs).toBe(0);
    expect((await getSession(serving(), there)).record.finishedAtMs).toBe(START_MS);
  });

  it("is not found by its key in the own namespace", async () => {
    await submitSession(serving(), POLICY, submission);
    expect(await faultFrom(getSession(serving(), { name: idOf }))).toMatchObject({ code: "not_found", id: idOf });
    expect(await faultFrom(cancelSession(serving(), { name: idOf }))).toMatchObject({ code: "not_found" });
    expect(
      await faultFrom(submitSession(serving(), POLICY, { ...submission, name: idOf, namespace: "" })),
    ).toMatchObject({ code: "invalid_request" });
  });

  it("is listed with its namespace or all, and not with the own one", async () => {
    await submitSession(serving(), POLICY, { ...submission, requestId: "r-own", namespace: "" });
    await submitSession(serving(), POLICY, submission);
    const list = async (request: object): Promise<readonly (string | undefined)[]> => {
      const { sessions } = await listSessions(serving(), { limit: 0, after: "", ...request });
      return sessions.map(({ record }) => record.elsewhere?.namespace);
    };
    expect(await list({})).toEqual([undefined]);
    expect(await list({ namespace: "default" })).toEqual([undefined]);
    expect(await list({ namespace: "team-a" })).toEqual(["team-a"]);
    expect(await list({ namespace: "team-b" })).toEqual([]);
    expect(await list({ allNamespaces: true })).toEqual([undefined, "team-a"]);
  });

  it("is refused with the name of the setting unless its namespace is served, and found if it exists", async () => {
    const scope = { limit: 0, after: "", namespace: "team-a" };
    for (const request of [
      submitSession(deps(), POLICY, submission),
      checkSession(deps(), POLICY, submission),
      getSession(deps(), there),
      cancelSession(deps(), there),
      listSessions(deps(), scope),
    ]) {
      const fault = await faultFrom(request);
      expect(fault).toMatchObject({ code: "invalid_request", field: "namespace" });
      expect(JSON.stringify(fault)).toContain("SESSION_NAMESPACES=all");
    }
    const unlisted = deps({ servesNamespace: () => undefined });
    expect(await faultFrom(submitSession(unlisted, POLICY, submission))).toMatchObject({ code: "unavailable" });
    await submitSession(serving(), POLICY, submission);
    expect((await getSession(deps(), there)).record.elsewhere).toEqual(there);
    expect((await listSessions(deps(), { limit: 0, after: "", namespace: "team-a" })).sessions).toHaveLength(1);
  });

  it("has its logs in its namespace", async () => {
    const { record } = await submitSession(serving(), POLICY, submission);
    put({ ...record, components: record.components.map((status) => ({ ...status, podUid: "u-pod" })) });
    const asked: unknown[] = [];
    const liveLog: RequestDeps["liveLog"] = (log) => Promise.resolve((asked.push(log), Buffer.from("live")));
    const request = { ...there, component: "driver", container: "", offset: 0, limitBytes: 0, waitMs: 0 };
    await readSessionLog(serving({ liveLog }), request, never);
    expect(asked).toEqual([{ session: idOf, namespace: "team-a", pod: "bench-driver", container: "main" }]);
  });
});
