import { expect, it } from "vitest";
import type { Job, Lease, ReplicaSet, Session } from "../adapters/messages.ts";
import { workOf, workPathOf, type WorkItem } from "./work.ts";

const session = (kinds: readonly string[], fields: object = {}): WorkItem => {
  const events = kinds.map((kind) => ({ kind, atMs: 1, reason: "COMPONENT_FAILED", description: "it ended" }));
  const rest = { components: [], waitingCode: "WAITS", waitingBecause: "no machine", ...fields };
  return { kind: "session", item: { name: "echo", events, ...rest } as unknown as Session };
};
const job = (state: string, conditions: object[] = []): WorkItem => {
  const key = { kind: "TFJob", namespace: "default", name: "train" };
  const members = [{ pool: "gpu" }, { pool: "cpu" }, { pool: "gpu" }];
  return { kind: "job", item: { key, state, conditions, members, waitingBecause: "no machine" } as unknown as Job };
};
const set = (record: object, healthy = 3): WorkItem => {
  return {
    kind: "replica-set",
    item: { record: { name: "web", ...record }, healthy, replicasDesired: 3 } as unknown as ReplicaSet,
  };
};
const lease = (phase: string, fields: object = {}, more: object = {}): WorkItem => {
  const record = { order: { id: "3-1", type: "volume" }, phase, ...fields };
  return { kind: "lease", item: { record, waitingBecause: "", stuck: false, ...more } as unknown as Lease };
};

it.each<[title: string, item: WorkItem, shown: string]>([
  ["a session that waits", session(["QUEUE"]), "session echo waiting QUEUE WAITS: no machine"],
  ["a session without an event", session([]), "session echo waiting QUEUE WAITS: no machine"],
  ["a session that failed", session(["QUEUE", "ERROR"]), "session echo failed ERROR COMPONENT_FAILED: it ended"],
  [
    "a session that is being cancelled",
    session(["RUN"], { cancelRequested: true, waitingCode: "", waitingBecause: "" }),
    "session echo ending RUN : ",
  ],
  [
    "a session that was done before it was cancelled",
    session(["DONE"], { cancelRequested: true, waitingCode: "", waitingBecause: "" }),
    "session echo succeeded DONE : ",
  ],
  [
    "a job that waits",
    job("QUEUED", [{ type: "MachinesReserved", isTrue: false, reason: "POOL_AVAILABILITY" }]),
    "job default/train waiting QUEUED POOL_AVAILABILITY: no machine",
  ],
  [
    "a job that failed",
    job("FAILED", [{ type: "Failed", isTrue: true, reason: "Backoff", message: "too often" }]),
    "job default/train failed FAILED Backoff: too often",
  ],
  [
    "a job that was cancelled",
    job("FAILED", [{ type: "Failed", isTrue: true, reason: "Cancelled", message: "" }]),
    "job default/train cancelled CANCELLED : no machine",
  ],
  ["a whole set", set({}), "replica-set web running HEALTHY : 3 of 3 replicas are healthy"],
  [
    "a set in trouble",
    set({ trouble: { code: "TOO_FEW_NODES", message: "one lacks" } }, 1),
    "replica-set web waiting INCOMPLETE TOO_FEW_NODES: one lacks",
  ],
  [
    "a set that is being deleted",
    set({ deletion: {} }),
    "replica-set web ending DELETING : 3 of 3 replicas are healthy",
  ],
  ["a set that lacks replicas", set({}, 1), "replica-set web starting INCOMPLETE : 1 of 3 replicas are healthy"],
  ["a disabled set", set({ disabled: true }), "replica-set web running DISABLED : 3 of 3 replicas are healthy"],
  [
    "a set in a rolling update",
    set({ roll: "web" }, 2),
    "replica-set web starting ROLLING : 2 of 3 replicas are healthy",
  ],
  [
    "a set that moves a replica",
    set({ transfer: {} }),
    "replica-set web running TRANSFERRING : 3 of 3 replicas are healthy",
  ],
  [
    "a lease that waits",
    lease("ORDERED", {}, { waitingBecause: "no machine" }),
    "lease 3-1 waiting ORDERED WAITING: no machine",
  ],
  [
    "a lease that cannot be provided",
    lease("ENDED", { ending: { cause: "PROVISION_FAILED", message: "" }, trouble: "refused" }),
    "lease 3-1 failed ENDED PROVISION_FAILED: refused",
  ],
  ["a lease that failed without a cause", lease("FAILED"), "lease 3-1 failed FAILED FAILED: "],
  ["an active lease", lease("ACTIVE"), "lease 3-1 running ACTIVE : "],
  [
    "a lease that has run out",
    lease("ENDED", { ending: { cause: "EXPIRED", message: "" } }),
    "lease 3-1 succeeded ENDED : ",
  ],
  [
    "a lease that crashed",
    lease("ENDED", { ending: { cause: "CRASHED", message: "exits" } }),
    "lease 3-1 failed ENDED CRASHED: exits",
  ],
  ["a lease that is stuck", lease("DECOMMISSIONING", {}, { stuck: true }), "lease 3-1 ending DECOMMISSIONING STUCK: "],
])("%s", (_, item, shown) => {
  const { kind, id, stage, state, code, because } = workOf(item);
  expect(`${kind} ${id} ${stage} ${state} ${code}: ${because}`).toBe(shown);
});

it("names each pool once", () => {
  expect(workOf(job("RUNNING"))).toMatchObject({ pools: ["cpu", "gpu"], machines: 3, type: "TFJob" });
});

it("names all pools that a session accepts until one is granted", () => {
  const fields = {
    components: [{ pool: "h100" }, { pool: "cpu" }],
    spec: { components: [{ pool: "h100", otherPools: ["a100"] }, { pool: "cpu" }] },
  };
  expect(workOf(session(["QUEUE"], fields))).toMatchObject({ pools: ["a100", "cpu", "h100"], machines: 2 });
  expect(workOf(session(["RUN"], fields))).toMatchObject({ pools: ["cpu", "h100"], machines: 2 });
});

it.each([
  [{ kind: "session", id: "echo" }, "session/echo"],
  [{ kind: "replica-set", id: "web--3" }, "replica-set/web"],
  [{ kind: "job", id: "x1" }, undefined],
])("the owner %j has the page %s", (owner, path) => {
  expect(workPathOf(owner)).toBe(path);
});
