import { expect, it } from "vitest";
import { makeQueue } from "../../test/a-queue.ts";
import type { KindsTrouble } from "../adapters/muster-services.ts";
import { buildChecks, isHealthy, type Observations } from "./build-doctor-report.ts";

const NO_ROOM = {
  ...{ shared: 0, allocatable: {}, free: {}, foreign: undefined },
  ...{ overcommitted: 0, overcommittedNodes: [], elasticAtMs: undefined },
};

const replica = (name: string, version = "1.0.0") => ({ name, id: `${name}-${version}`, version });
const pool = {
  name: "workers",
  available: 3,
  capacity: 4,
  held: 1,
  unusable: 0,
  unusableByReason: [],
  ...NO_ROOM,
  waiting: 0,
  elasticMax: 0,
};

const NOW = 10_000_000;
const NATS = { version: "2.15.2", roundTripMs: 0.4, jetStreamTrouble: undefined, deadLetters: 0, records: {} };

const KINDS: KindsTrouble = {
  gone: [],
  refused: [],
  namespace: "default",
  elsewhere: { jobs: [], isMore: false, isRefused: false, mayHaveQueue: false },
  rightsMissing: [],
  isUnserved: false,
};

const healthy: Observations = {
  connection: { natsUrl: "nats://h:1", because: "default", hint: "start it" },
  nats: { value: NATS },
  replicas: {
    value: [replica("session"), replica("reservation"), replica("watch"), replica("watch"), replica("job")],
  },
  watcher: { value: { ageMs: 900, synced: true, pods: 2, nodes: 5 } },
  pools: { value: [pool] },
  queues: { value: [] },
  reservations: { value: [] },
  jobReservations: { value: 0 },
  scaler: { trouble: "node is not available" },
  dropped: { value: [] },
  kinds: { value: KINDS },
  unreadableSets: { value: [] },
  leases: { trouble: "provision is not available" },
  unreadableLeases: { value: [] },
  jobs: { value: [] },
};

it("reports no next step when all checks pass", () => {
  const checks = buildChecks(healthy, NOW);
  expect(checks.map(({ check, status, next }) => `${check} ${status}${next}`)).toEqual([
    "nats ok",
    "jetstream ok",
    "session-controller ok",
    "reservation-manager ok",
    "watcher ok",
    "job-controller ok",
    "replication-farm ok",
    "provision-engine ok",
    "node-scaler ok",
    "namespaces ok",
    "watcher's view ok",
    "pools ok",
    "slow consumers ok",
    "dead letters ok",
  ]);
  expect(isHealthy(checks)).toBe(true);
});

it("does not count the replicas of the ledger, because only the leader answers", () => {
  const found = buildChecks(healthy, NOW).find(({ check }) => check === "reservation-manager");
  expect(found).toMatchObject({
    status: "ok",
    detail: "its leader answers (standby replicas do not), version 1.0.0",
  });
});

it("reports how many replicas of the job controller answer, and no failure where none runs", () => {
  const detailWith = (...jobs: readonly ReturnType<typeof replica>[]): string | undefined => {
    const value = [replica("session"), replica("reservation"), replica("watch"), ...jobs];
    const checks = buildChecks({ ...healthy, replicas: { value } }, NOW);
    expect(isHealthy(checks)).toBe(true);
    return checks.find(({ check }) => check === "job-controller")?.detail;
  };
  expect(detailWith(replica("job"), replica("job"))).toBe("2 replicas, version 1.0.0");
  expect(detailWith()).toBe("not running; it is needed for jobs alone");
});

it("warns where work needs a service that does not answer", () => {
  const value = [replica("session"), replica("reservation"), replica("watch")];
  const nats = { value: { ...NATS, records: { farm: 1, provision: 2 } } };
  const checks = buildChecks({ ...healthy, nats, replicas: { value }, jobReservations: { value: 3 } }, NOW);
  expect(checks.filter(({ status }) => status === "warning").map(({ check, detail }) => `${check}: ${detail}`)).toEqual(
    [
      "job-controller: no replica answers: nothing manages 3 jobs",
      "replication-farm: no replica answers: nothing manages 1 replica set",
      "provision-engine: no replica answers: nothing manages 2 leases",
    ],
  );
});

it("accepts a pool that may grow, whatever its size, and warns when no service creates its nodes", () => {
  const elastic = { ...pool, name: "elastic", available: 0, capacity: 0, elasticMax: 8 };
  const pools = { value: [pool, elastic] };
  const without = buildChecks({ ...healthy, pools }, NOW);
  expect(without.find(({ check }) => check === "pools")).toMatchObject({
    status: "ok",
    detail: "workers 3/4, elastic 0/0 (up to 8) free",
  });
  expect(without.filter(({ status }) => status !== "ok")).toEqual([
    {
      check: "node-scaler",
      status: "warning",
      detail: "no replica answers: no service creates nodes for elastic",
      next: expect.stringContaining("start node-scaler") as unknown,
    },
  ]);
  const replicas =
    "value" in healthy.replicas ? { value: [...healthy.replicas.value, replica("node")] } : healthy.replicas;
  const checks = buildChecks({ ...healthy, pools, replicas }, NOW);
  expect(checks.every(({ status }) => status === "ok")).toBe(true);
  expect(checks.find(({ check }) => check === "node-scaler")?.detail).toBe(
    "its leader answers (standby replicas do not), version 1.0.0",
  );
  expect(buildChecks(healthy, NOW).find(({ check }) => check === "node-scaler")?.detail).toBe(
    "not running; it is needed for pools that may grow alone",
  );
});

it("reports only NATS when NATS does not answer", () => {
  const checks = buildChecks({ ...healthy, nats: { trouble: "cannot connect" } }, NOW);
  expect(checks).toEqual([{ check: "nats", status: "failed", detail: "cannot connect", next: "start it" }]);
});

it.each<[string, Partial<Observations>, string, "failed" | "warning", RegExp]>([
  [
    "JetStream is disabled",
    { nats: { value: { ...NATS, jetStreamTrouble: "no answer", deadLetters: undefined } } },
    "jetstream",
    "failed",
    /start the NATS server with JetStream/,
  ],
  [
    "a service is missing",
    { replicas: { value: [replica("session"), replica("watch")] } },
    "reservation-manager",
    "failed",
    /start reservation-manager/,
  ],
  [
    "replicas differ in version",
    {
      replicas: { value: [replica("session"), replica("session", "2.0.0"), replica("reservation"), replica("watch")] },
    },
    "session-controller",
    "warning",
    /finish the update/,
  ],
  [
    "a service was too slow for signals",
    { dropped: { value: [{ service: "watch", id: "w", subject: "muster.evt.a.*", dropped: 12 }] } },
    "slow consumers",
    "warning",
    /give watcher more CPU/,
  ],
  ["the watcher does not answer", { watcher: { trouble: "no answer" } }, "watcher's view", "failed", /start watcher/],
  [
    "the watcher has not listed everything yet",
    { watcher: { value: { ageMs: 1, synced: false, pods: 0, nodes: 0 } } },
    "watcher's view",
    "failed",
    /wait a moment/,
  ],
  [
    "the watcher has received nothing for long",
    { watcher: { value: { ageMs: 600_000, synced: true, pods: 0, nodes: 0 } } },
    "watcher's view",
    "failed",
    /reaches the Kubernetes API/,
  ],
  ["no pool exists", { pools: { value: [] } }, "pools", "failed", /label nodes/],
  [
    "a pool has no machine",
    { pools: { value: [pool, { ...pool, name: "gpu", capacity: 0 }] } },
    "pools",
    "warning",
    /no usable machine in gpu/,
  ],
  [
    "messages could not be handled",
    { nats: { value: { ...NATS, deadLetters: 3 } } },
    "dead letters",
    "warning",
    /dead-letters list/,
  ],
])("states the next step when %s", (_title, change, name, status, next) => {
  const checks = buildChecks({ ...healthy, ...change }, NOW);
  expect(checks.filter((check) => check.status !== "ok")).toEqual([
    expect.objectContaining({ check: name, status, next: expect.stringMatching(next) as unknown }),
  ]);
  expect(isHealthy(checks)).toBe(status === "warning");
});

it("names the subjects that lost most signals, with their numbers", () => {
  const value = [1, 5, 3, 4].map((count) => ({ service: "session", id: "s", subject: `e.${count}`, dropped: count }));
  const check = buildChecks({ ...healthy, dropped: { value } }, NOW).find(({ status }) => status === "warning");
  expect(check?.detail).toBe(
    "session-controller lost 5 signals of e.5, session-controller lost 4 signals of e.4, " +
      "session-controller lost 3 signals of e.3 and 1 more, counted since its start",
  );
});

it.each<[title: string, elsewhere: Partial<KindsTrouble["elsewhere"]>, status: string, detail: string]>([
  ["none", {}, "ok", "jobs of the namespace default are run; others have none"],
  [
    "some",
    { jobs: ["team-a/job/train", "team-b/tfjob/mnist"], isMore: true },
    "warning",
    "jobs of the namespace default are run, and no controller runs team-a/job/train, team-b/tfjob/mnist, among others",
  ],
  [
    "a missing right to list",
    { isRefused: true },
    "ok",
    "jobs of the namespace default are run; job-controller has no right to list those of others (rights.otherNamespaces)",
  ],
  [
    "none, with a queue",
    { mayHaveQueue: true },
    "ok",
    "jobs of the namespace default and of namespaces with a queue are run; others have none",
  ],
])("reports jobs of other namespaces: %s", (_title, elsewhere, status, detail) => {
  const kinds = { value: { ...KINDS, elsewhere: { ...KINDS.elsewhere, ...elsewhere } } };
  const check = buildChecks({ ...healthy, kinds }, NOW).find((each) => each.check === "namespaces");
  expect(check).toMatchObject({ status, detail });
});

it("names kinds of job that are uninstalled or unreadable, and nothing when no job controller answers", () => {
  const warningsOf = (kinds: Observations["kinds"]) =>
    buildChecks({ ...healthy, kinds }, NOW)
      .filter(({ check, status }) => check === "kinds of job" && status === "warning")
      .map(({ detail }) => detail);
  expect(warningsOf({ value: { ...KINDS, gone: ["TFJob", "MPIJob"], refused: ["XGBoostJob"] } })).toEqual([
    "TFJob, MPIJob was installed, and is missing now: such jobs are not run",
    "XGBoostJob may not be read by job-controller: such jobs are not run",
  ]);
  expect(warningsOf({ trouble: "no replica answers" })).toEqual([]);
});

it.each([
  ["rights of job-controller", { rightsMissing: ["jobs.batch"] }, /no right to read jobs\.batch/],
  ["namespaces without a queue", { isUnserved: true }, /none serves the namespace default/],
])("warns in %s", (check, kinds, detail) => {
  const found = (value: KindsTrouble) =>
    buildChecks({ ...healthy, kinds: { value } }, NOW).filter((each) => each.check === check);
  expect(found(KINDS)).toEqual([]);
  expect(found({ ...KINDS, ...kinds })).toMatchObject([
    { status: "warning", detail: expect.stringMatching(detail) as string },
  ]);
  expect(
    buildChecks({ ...healthy, kinds: { trouble: "no replica answers" } }, NOW).map((each) => each.check),
  ).not.toContain(check);
});

it("warns of jobs that wait for machines that their pools can never have, and of no other waiting job", () => {
  const job = (name: string, reason: string) => ({
    kind: "job",
    name,
    events: [{ phase: "QUEUED", atMs: 0, description: "", reason }],
    waitingBecause: `${name} waits`,
  });
  const jobs = {
    value: [
      job("large", "POOL_CAPACITY"),
      job("patient", "POOL_AVAILABILITY"),
      job("lost", "POOL_UNKNOWN"),
      job("wide", "LIMIT_EXCEEDED"),
    ],
  };
  const check = buildChecks({ ...healthy, jobs }, NOW).find(({ status }) => status === "warning");
  expect(check?.detail).toBe("job/large: large waits; job/lost: lost waits; job/wide: wide waits");
  const quota = buildChecks({ ...healthy, jobs: { value: [job("greedy", "QUOTA_EXCEEDED")] } }, NOW);
  expect(quota.find(({ check: name }) => name === "jobs that cannot start")?.detail).toBe("job/greedy: greedy waits");
});

it("warns of queues with a problem", () => {
  const queues = { value: [makeQueue("lost", { parent: "nowhere", problem: "PARENT_MISSING" })] };
  const found = buildChecks({ ...healthy, queues }, NOW).filter(({ status }) => status !== "ok");
  expect(found).toMatchObject([{ check: "queues", status: "warning" }]);
});

it("names the leases whose records cannot be read", () => {
  const unreadableLeases = { value: [{ id: "9-9", because: "it has no order" }] };
  const checks = buildChecks({ ...healthy, unreadableLeases }, NOW);
  const found = checks.find(({ check }) => check === "records of leases");
  expect(found).toMatchObject({ status: "failed", detail: "cannot be read: 9-9: it has no order" });
});

it("names the replica sets that cannot be read, and the command that removes one", () => {
  const unreadableSets = { value: [{ name: "web", because: "it has no spec" }] };
  const checks = buildChecks({ ...healthy, unreadableSets }, NOW);
  const found = checks.find(({ check }) => check === "records of replica sets");
  expect(found).toMatchObject({ status: "failed", detail: "cannot be read: web: it has no spec" });
  expect(found?.next).toContain("muster delete NAME --force");
  expect(isHealthy(checks)).toBe(false);
});

it("names machines that foreign pods over-commit", () => {
  const over = { ...pool, name: "gpu", overcommitted: 4, overcommittedNodes: ["g1", "g2", "g3"] };
  const checks = buildChecks({ ...healthy, pools: { value: [pool, over] } }, NOW);
  expect(checks.filter(({ check }) => check === "over-committed machines")).toMatchObject([
    { status: "warning", detail: "4 machines of gpu (g1, g2, g3 and 1 more)" },
  ]);
});
