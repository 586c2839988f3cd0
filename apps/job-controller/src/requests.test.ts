import { FaultError } from "@muster/faults";
import { describe, expect, it } from "vitest";
import { KINDS } from "./domain/kinds.ts";
import {
  computeAnswerPauseMs,
  cancelJob,
  checkJob,
  getJob,
  listJobs,
  submitJob,
  suspendJob,
  watchJob,
  type FoundJob,
  type JobKey,
  type RequestDeps,
} from "./requests.ts";

const GOING_ON = new AbortController().signal;
const REPLICA = { replicas: 1, template: { spec: { containers: [{ name: "main", image: "image" }] } } };
const MANIFEST = {
  apiVersion: "muster.dev/v1",
  kind: "Job",
  metadata: { name: "train" },
  spec: { replicaSpecs: { worker: REPLICA } },
};

/** Jobs whose changes a test scripts. */
function world(...keys: readonly (readonly [name: string, kind: string])[]) {
  const jobs = new Map<string, FoundJob<string>>();
  const indexOf = ({ kind, name, namespace = "default" }: JobKey): string =>
    [name, kind, ...(namespace === "default" ? [] : [namespace])].join("/");
  const clock = { nowMs: 0, stepMs: undefined as number | undefined, onWait: (): void => undefined, members: 0 };
  const put = (key: JobKey, revision: string): FoundJob<string> => {
    const own = { namespace: "default", ...key };
    const found = { key: own, revision, members: clock.members, view: `${key.kind} ${key.name}` };
    jobs.set(indexOf(own), found);
    return found;
  };
  for (const [name, kind] of keys) put({ name, kind }, "1");
  const counts = { built: 0, written: 0, read: 0 };
  /** Revisions that another client writes just before our own write. */
  const conflicts: string[] = [];
  const waits: number[] = [];
  /** The sizes in bytes of larger jobs. */
  const sizes = new Map<string, number>();
  const labels = new Map<string, Readonly<Record<string, string>>>();
  const served = new Map<string, boolean | undefined>([
    ["default", true],
    ["team-a", true],
    ["starting", undefined],
    ["other", false],
    ["elsewhere", false],
  ]);
  const deps: RequestDeps<string> = {
    kinds: KINDS,
    defaults: {
      pool: "pool",
      poolLabel: "pool",
      clusterDomain: undefined,
      scheduler: undefined,
      images: { waitForMaster: undefined, kubectlDelivery: undefined },
    },
    namespace: "default",
    servesNamespace: (namespace) => served.get(namespace),
    find: ({ kind, name, namespace }) => {
      counts.read += 1;
      const isMeant = ({ key }: FoundJob<string>): boolean =>
        key.name === name && key.namespace === namespace && (kind === "" || kind === key.kind);
      return Promise.resolve([...jobs.values()].filter(isMeant));
    },
    unread: () => [],
    listed: () => [...jobs.values()].map(({ key }) => ({ key, labels: labels.get(key.name) ?? {} })),
    seen: (key) => {
      counts.built += 1;
      return jobs.get(indexOf(key));
    },
    encode: ({ view }) => new Uint8Array(sizes.get(view) ?? 100),
    create: (kind, { metadata: { name, namespace } }) =>
      Promise.resolve(put({ kind: kind.kind, name, namespace }, "1")),
    tryCreate: (kind, { metadata: { name: id } }) =>
      jobs.has(`${id}/${kind.kind}`)
        ? Promise.reject(new FaultError({ code: "already_exists", kind: kind.kind, id }))
        : Promise.resolve(),
    maxima: () => Promise.resolve(new Map([["grows", 2]])),
    explainStart: () => Promise.resolve(undefined),
    isEnding: ({ revision }) => revision === "cancelled" || revision === "over",
    markCancelled: ({ key }) => {
      counts.written += 1;
      if (conflicts.length === 0) return Promise.resolve(put(key, "cancelled"));
      put(key, conflicts.shift() ?? "");
      return Promise.reject(new FaultError({ code: "conflict", id: key.name, expectedRevision: 0, actualRevision: 0 }));
    },
    isSuspended: ({ revision }) => revision === "suspended",
    setSuspended: ({ key }, suspended) => {
      counts.written += 1;
      return Promise.resolve(put(key, suspended ? "suspended" : "resumed"));
    },
    managedBy: ({ revision }) => (revision === "theirs" ? "another" : undefined),
    changed: (_key, { ms, emptyWakes: emptyWakes }) => {
      waits.push(emptyWakes);
      clock.nowMs += clock.stepMs ?? ms;
      clock.onWait();
      return Promise.resolve();
    },
    pause: (ms) => {
      clock.nowMs += ms;
      return Promise.resolve();
    },
    now: () => clock.nowMs,
  };
  return { deps, put, clock, jobs, counts, conflicts, waits, sizes, labels };
}

describe("a submitted job", () => {
  it("is created if its manifest is valid", async () => {
    const { deps, jobs } = world();
    await submitJob(deps, { requestId: "request", manifestJson: JSON.stringify(MANIFEST) });
    expect([...jobs.keys()]).toEqual(["train/Job"]);
  });

  it.each<[string, unknown]>([
    ["manifest_json", []],
    ["apiVersion", { ...MANIFEST, apiVersion: undefined }],
    ["kind", { ...MANIFEST, kind: undefined }],
    ["kind", { ...MANIFEST, kind: "Deployment" }],
    ["kind", { ...MANIFEST, apiVersion: "muster.dev/v2" }],
    ["metadata.name", { ...MANIFEST, metadata: {} }],
    ["metadata.namespace", { ...MANIFEST, metadata: { name: "train", namespace: "elsewhere" } }],
    ["status", { ...MANIFEST, status: {} }],
    ["spec", { ...MANIFEST, spec: undefined }],
  ])("is refused with the name of the field: %s", async (field, manifest) => {
    const { deps, jobs } = world();
    const refused = submitJob(deps, { requestId: "request", manifestJson: JSON.stringify(manifest) });
    await expect(refused).rejects.toMatchObject({ fault: { code: "invalid_request", field } });
    expect(jobs.size).toBe(0);
  });

  it.each(["", "x".repeat(129)])("is refused with an invalid request id: %j", async (requestId) => {
    const refused = submitJob(world().deps, { requestId, manifestJson: JSON.stringify(MANIFEST) });
    await expect(refused).rejects.toMatchObject({ fault: { code: "invalid_request", field: "request_id" } });
  });

  it("is refused if it is no JSON, or too large", async () => {
    const { deps } = world();
    await expect(submitJob(deps, { requestId: "request", manifestJson: "{" })).rejects.toMatchObject({
      fault: { code: "invalid_request", field: "manifest_json" },
    });
    await expect(
      submitJob(deps, { requestId: "request", manifestJson: JSON.stringify("x".repeat(512 * 1024)) }),
    ).rejects.toMatchObject({ fault: { code: "limit_exceeded", limit: 512 * 1024 } });
  });
});

describe("a checked job", () => {
  const worker = { ...REPLICA, dependsOn: [{ type: "missing", status: "Ready" }] };

  it.each<[string, unknown, readonly string[]]>([
    ["is right when nothing is wrong with it", { ...MANIFEST, metadata: { name: "other" } }, []],
    [
      "has each problem under the name of its field",
      { ...MANIFEST, spec: { replicaSpecs: { worker, other: { ...REPLICA, template: {} } } } },
      ["spec.replicaSpecs.other.template.spec", "spec.replicaSpecs.worker.dependsOn"],
    ],
    ["is no job of any kind", { ...MANIFEST, kind: "Deployment" }, ["kind"]],
    ["has the name of one that is there", MANIFEST, ["metadata.name"]],
    [
      "asks for more machines than its pool may ever have",
      {
        ...MANIFEST,
        metadata: { name: "other" },
        spec: { replicaSpecs: { worker: { ...REPLICA, replicas: 3, pool: "grows" } } },
      },
      ["spec"],
    ],
    [
      "asks for as many as its pool may have",
      {
        ...MANIFEST,
        metadata: { name: "other" },
        spec: { replicaSpecs: { worker: { ...REPLICA, replicas: 2, pool: "grows" } } },
      },
      [],
    ],
  ])("%s, and creates nothing", async (_title, manifest, fields) => {
    const { deps, jobs } = world(["train", "Job"]);
    const { problems } = await checkJob(deps, JSON.stringify(manifest));
    expect(problems.map(({ field }) => field)).toEqual(fields);
    expect(jobs.size).toBe(1);
  });

  it("causes a warning if the ledger does not report the maximum of pools", async () => {
    const { deps } = world();
    const silent = { ...deps, maxima: () => Promise.resolve(undefined) };
    const { problems, warnings } = await checkJob(silent, JSON.stringify(MANIFEST));
    expect(problems).toEqual([]);
    expect(warnings).toEqual([expect.stringContaining("the ledger does not answer")]);
  });

  it("causes a warning if the job would wait for its machines", async () => {
    const { deps } = world();
    const warningsOf = async (explainStart: typeof deps.explainStart) =>
      (await checkJob({ ...deps, explainStart }, JSON.stringify(MANIFEST))).warnings;
    const because = { code: "QUEUE_UNKNOWN", text: "no queue serves the namespace default" };
    expect(await warningsOf(() => Promise.resolve(undefined))).toEqual([]);
    expect(await warningsOf(() => Promise.resolve(because))).toEqual([
      "it would wait: QUEUE_UNKNOWN: no queue serves the namespace default",
    ]);
    const away = new FaultError({ code: "unavailable", dependency: "reservation-manager", retryAfterMs: 100 });
    expect(await warningsOf(() => Promise.reject(away))).toEqual([expect.stringContaining("does not answer")]);
  });
});

describe("a requested job", () => {
  it("is found without its kind if only one kind has a job of that name", async () => {
    const { deps } = world(["train", "Job"], ["other", "TFJob"]);
    expect((await getJob(deps, { kind: "", name: "other" }, GOING_ON)).view).toBe("TFJob other");
  });

  it.each<[string, JobKey]>([
    ["key.name", { kind: "Job", name: "" }],
    ["key.kind", { kind: "CronJob", name: "train" }],
    ["key.kind", { kind: "", name: "train" }],
  ])("is refused with the name of the field: %s", async (field, key) => {
    const { deps } = world(["train", "Job"], ["train", "TFJob"]);
    await expect(getJob(deps, key, GOING_ON)).rejects.toMatchObject({ fault: { code: "invalid_request", field } });
  });

  it("is not found when no job of that kind exists", async () => {
    const { deps } = world(["train", "Job"]);
    await expect(getJob(deps, { kind: "TFJob", name: "train" }, GOING_ON)).rejects.toMatchObject({
      fault: { code: "not_found", kind: "TFJob", id: "train" },
    });
  });
});

it("an unserved namespace is refused with the name of the field, and the served one is accepted", async () => {
  const { deps } = world(["train", "Job"]);
  const key = { kind: "Job", name: "train" };
  const reason =
    '"other" is not served: this job-controller runs the jobs of the namespace "default", and with JOB_NAMESPACES=all of namespaces that a queue serves';
  const found = await getJob(deps, { ...key, namespace: "default" }, GOING_ON);
  expect(listJobs(deps, { limit: 0, bytes: BYTES, after: "", namespace: "default" }).jobs).toEqual([found]);
  await expect(getJob(deps, { ...key, namespace: "other" }, GOING_ON)).rejects.toMatchObject({
    fault: { code: "invalid_request", field: "key.namespace", reason },
  });
  const fault = { code: "invalid_request", field: "namespace", reason } as const;
  expect(() => listJobs(deps, { limit: 0, bytes: BYTES, after: "", namespace: "other" })).toThrow(
    new FaultError(fault),
  );
});

describe("jobs of one name in two namespaces", () => {
  const key = { kind: "Job", name: "train" };
  const both = () => {
    const { deps, put } = world(["train", "Job"]);
    put({ ...key, namespace: "team-a" }, "2");
    return deps;
  };

  it.each([
    [{}, "1"],
    [{ namespace: "" }, "1"],
    [{ namespace: "default" }, "1"],
    [{ namespace: "team-a" }, "2"],
  ])("are found by their namespace: %o", async (named, revision) => {
    expect((await getJob(both(), { ...key, ...named }, GOING_ON)).revision).toBe(revision);
  });

  it.each([
    ["", ["default", "team-a"]],
    ["team-a", ["team-a"]],
  ])('are listed in the namespace "%s"', (namespace, expected) => {
    const names = (limit: number, after: string) => listJobs(both(), { limit, bytes: BYTES, after, namespace });
    expect(names(0, "").jobs.map(({ key: of }) => of.namespace)).toEqual(expected);
    const first = names(1, "");
    const pages = [first, ...(first.next === "" ? [] : [names(1, first.next)])];
    expect(pages.flatMap(({ jobs }) => jobs.map(({ key: of }) => of.namespace))).toEqual(expected);
  });

  it("are listed after the last queue of their namespace is gone, if they have begun", () => {
    const { deps, put } = world();
    put({ ...key, namespace: "other" }, "3");
    const { jobs } = listJobs(deps, { limit: 0, bytes: BYTES, after: "", namespace: "other" });
    expect(jobs.map(({ revision }) => revision)).toEqual(["3"]);
  });

  it("are created in the namespace of the manifest", async () => {
    const manifest = { ...MANIFEST, metadata: { name: "train", namespace: "team-a" } };
    const request = { requestId: "r", manifestJson: JSON.stringify(manifest) };
    const { found } = await submitJob(world(["train", "Job"]).deps, request);
    expect(found.key).toEqual({ ...key, namespace: "team-a" });
  });

  it("are not refused for good before the queues are known", async () => {
    const fault = { code: "unavailable", dependency: "the list of the queues" };
    await expect(getJob(both(), { ...key, namespace: "starting" }, GOING_ON)).rejects.toMatchObject({ fault });
  });
});

describe("a watched job", () => {
  const request = { key: { kind: "Job", name: "train" }, afterRevision: "1", waitMs: 60_000 };

  it("is answered immediately if it already differs", async () => {
    const { deps, clock } = world(["train", "Job"]);
    await watchJob(deps, { ...request, afterRevision: "0" }, GOING_ON);
    expect(clock.nowMs).toBe(0);
  });

  it("is answered when it has changed", async () => {
    const { deps, clock, put } = world(["train", "Job"]);
    clock.onWait = () => void put(request.key, "2");
    expect((await watchJob(deps, request, GOING_ON)).revision).toBe("2");
  });

  it("is answered unchanged after the wait, which is never longer than half a minute", async () => {
    const { deps, clock } = world(["train", "Job"]);
    expect((await watchJob(deps, request, GOING_ON)).revision).toBe("1");
    expect(clock.nowMs).toBe(30_000);
  });

  it("counts wakes without a change while the cache has another state of it", async () => {
    const { deps, clock, waits } = world(["train", "Job"]);
    clock.stepMs = 10_000;
    const behind = { ...deps, seen: () => undefined };
    await watchJob(behind, { key: { kind: "Job", name: "train" }, afterRevision: "1", waitMs: 30_000 }, GOING_ON);
    expect(waits).toEqual([0, 1, 2]);
  });

  it("is read at the API server at the start of the wait and for the answer, however often the cache wakes it", async () => {
    const { deps, clock, counts, put } = world(["train", "Job"]);
    clock.stepMs = 100;
    let rings = 0;
    clock.onWait = () => {
      rings += 1;
      if (rings === 50) put(request.key, "2");
    };
    expect((await watchJob(deps, request, GOING_ON)).revision).toBe("2");
    expect(counts.read).toBe(2);
  });

  it("is answered in the state of the API server, not of the cache", async () => {
    const { deps, put } = world(["train", "Job"]);
    const copy = { ...put(request.key, "2"), revision: "1.5" };
    put(request.key, "3");
    expect((await watchJob({ ...deps, seen: () => copy }, request, GOING_ON)).revision).toBe("3");
  });

  it("is answered less often the more members it has, so that the cost of a starting gang is not quadratic", async () => {
    const { deps, clock, counts, put } = world();
    const members = 400;
    clock.members = members;
    let revision = 0;
    const change = (): FoundJob<string> => put(request.key, String((revision += 1)));
    // One member starts every 10 ms, and the watcher sends its next request immediately after each answer.
    clock.stepMs = 10;
    clock.onWait = change;
    let seen = change();
    for (; clock.nowMs < members * 10; clock.nowMs += 1) {
      seen = await watchJob(deps, { ...request, afterRevision: seen.revision }, GOING_ON);
      change();
    }
    expect(counts.read).toBeLessThan(12);
  });

  it("is answered at least every half second while it changes, and a small one every few milliseconds", () => {
    expect([undefined, { members: 4 }, { members: 1000 }].map(computeAnswerPauseMs)).toEqual([0, 4, 500]);
  });

  it("is answered unchanged when no client waits", async () => {
    const { deps, clock } = world(["train", "Job"]);
    await watchJob(deps, request, AbortSignal.abort());
    expect(clock.nowMs).toBe(0);
  });

  it("is not found after its deletion", async () => {
    const { deps, clock, jobs } = world(["train", "Job"]);
    clock.onWait = () => {
      jobs.clear();
    };
    await expect(watchJob(deps, request, GOING_ON)).rejects.toMatchObject({ fault: { code: "not_found" } });
  });
});

const BYTES = 512 * 1024;

describe("the list of jobs", () => {
  it("is unavailable, rather than incomplete, while the jobs of one kind are unread", () => {
    const { deps } = world(["a", "Job"]);
    const starting = { ...deps, unread: () => ["the jobs of kind TFJob", "pods"] };
    expect(() => listJobs(starting, { limit: 0, bytes: BYTES, after: "" })).toThrow(
      new FaultError({
        code: "unavailable",
        dependency: "the list of the jobs of kind TFJob and of pods",
        retryAfterMs: 250,
      }),
    );
  });

  it("is read page by page, each job once, even with names of the same prefix", () => {
    const { deps } = world(["a", "Job"], ["a", "TFJob"], ["a-b", "Job"], ["b", "Job"]);
    const read: string[] = [];
    let after = "";
    do {
      const page = listJobs(deps, { limit: 1, bytes: BYTES, after });
      read.push(...page.jobs.map(({ view }) => view));
      after = page.next;
    } while (after !== "");
    expect(read.sort()).toEqual(["Job a", "Job a-b", "Job b", "TFJob a"]);
  });

  it("has at most five hundred jobs per page, also by default", () => {
    const { deps } = world(...Array.from({ length: 501 }, (_, index) => [`job-${index}`, "Job"] as const));
    for (const limit of [0, 5000]) expect(listJobs(deps, { limit, bytes: BYTES, after: "" }).jobs).toHaveLength(500);
  });

  it("has no more jobs per page than fit into a reply, however large they are", () => {
    const { deps, sizes } = world(...["a", "b", "c", "d"].map((name) => [name, "Job"] as const));
    sizes.set("Job b", 2 * BYTES);
    const pages: string[][] = [];
    let after = "";
    do {
      const { jobs, next } = listJobs(deps, { limit: 0, bytes: BYTES, after });
      pages.push(jobs.map(({ key }) => key.name));
      after = next;
    } while (after !== "");
    expect(pages).toEqual([["a"], ["b"], ["c", "d"]]);
  });

  it("encodes only the jobs of its page", () => {
    const { deps, counts } = world(...Array.from({ length: 50 }, (_, index) => [`job-${index}`, "Job"] as const));
    expect(listJobs(deps, { limit: 10, bytes: BYTES, after: "job-2" }).jobs).toHaveLength(10);
    expect(counts.built).toBe(10);
  });

  it("has the jobs whose labels match, in pages that are full", () => {
    const { deps, counts, labels } = world(...["a", "b", "c", "d"].map((name) => [name, "Job"] as const));
    labels.set("a", { team: "x" }).set("c", { team: "x", tier: "low" }).set("d", { team: "x" });
    const request = { limit: 2, bytes: BYTES, after: "", labelSelector: "team in (x, y),tier!=low" };
    const { jobs, next } = listJobs(deps, request);
    expect([jobs.map(({ key }) => key.name), next]).toEqual([["a", "d"], ""]);
    expect(counts.built).toBe(2);
    const fault = { code: "invalid_request", field: "labelSelector" };
    expect(() => listJobs(deps, { ...request, labelSelector: "team in x" })).toThrow(
      expect.objectContaining({ fault: expect.objectContaining(fault) as unknown }),
    );
  });

  it("leaves out a job that has gone since it was counted", () => {
    const { deps, jobs } = world(["a", "Job"], ["b", "Job"], ["c", "Job"]);
    const before = deps.listed();
    jobs.delete("b/Job");
    const { jobs: listed, next } = listJobs({ ...deps, listed: () => before }, { limit: 2, bytes: BYTES, after: "" });
    expect(listed.map(({ key }) => key.name)).toEqual(["a"]);
    expect(next).toBe("b/Job/default");
  });
});

describe("a cancellation", () => {
  const key = { kind: "", name: "train" };

  it("marks only the named job", async () => {
    const { deps, jobs } = world(["train", "Job"]);
    expect((await cancelJob(deps, key, GOING_ON)).revision).toBe("cancelled");
    const other = cancelJob(deps, { kind: "Job", name: "other" }, GOING_ON);
    await expect(other).rejects.toMatchObject({ fault: { code: "not_found" } });
    expect(jobs.size).toBe(1);
  });

  it.each(["over", "cancelled"])("returns a job unchanged, without a write, if it is %s already", async (revision) => {
    const { deps, put, counts } = world();
    put({ kind: "Job", name: "train" }, revision);
    expect((await cancelJob(deps, key, GOING_ON)).revision).toBe(revision);
    expect(counts.written).toBe(0);
  });

  it("is refused without a write if another controller runs the job", async () => {
    const { deps, put, counts } = world();
    put({ kind: "Job", name: "train" }, "theirs");
    await expect(cancelJob(deps, key, GOING_ON)).rejects.toMatchObject({
      fault: { code: "invalid_request", reason: "names a job that is managed by another, which alone can end it" },
    });
    expect(counts.written).toBe(0);
  });

  it("reads a job again that has changed since", async () => {
    const { deps, conflicts, counts } = world(["train", "Job"]);
    conflicts.push("2", "over");
    expect((await cancelJob(deps, key, GOING_ON)).revision).toBe("over");
    expect(counts.written).toBe(2);
  });

  it("fails if the job changes all the time", async () => {
    const { deps, conflicts, counts } = world(["train", "Job"]);
    conflicts.push(...Array.from({ length: 100 }, (_, index) => `${index}`));
    await expect(cancelJob(deps, key, GOING_ON)).rejects.toMatchObject({ fault: { code: "conflict" } });
    expect(counts.written).toBe(20);
  });
});

describe("a suspension or resumption", () => {
  const key = { kind: "", name: "train" };

  it.each([
    ["running", true, "suspended"],
    ["suspended", false, "resumed"],
  ])("is written: a job that is %s, with suspended: %s", async (revision, suspended, expected) => {
    const { deps, put, counts } = world();
    put({ kind: "Job", name: "train" }, revision);
    expect((await suspendJob(deps, { key, suspended }, GOING_ON)).revision).toBe(expected);
    expect(counts.written).toBe(1);
  });

  it.each([
    ["suspended", true],
    ["running", false],
  ])("returns a job unchanged, without a write, if it is %s already", async (revision, suspended) => {
    const { deps, put, counts } = world();
    put({ kind: "Job", name: "train" }, revision);
    expect((await suspendJob(deps, { key, suspended }, GOING_ON)).revision).toBe(revision);
    expect(counts.written).toBe(0);
  });

  it.each([
    ["over", true, "names a job that is over or being cancelled: only one that waits or runs can be suspended"],
    ["cancelled", false, "names a job that is over or being cancelled: only one that waits or runs can be resumed"],
    ["theirs", true, "names a job that is managed by another, which alone can suspend it"],
  ])("is refused without a write: %s, with suspended: %s", async (revision, suspended, reason) => {
    const { deps, put, counts } = world();
    put({ kind: "Job", name: "train" }, revision);
    const refused = suspendJob(deps, { key, suspended }, GOING_ON);
    await expect(refused).rejects.toMatchObject({ fault: { code: "invalid_request", field: "key.name", reason } });
    expect(counts.written).toBe(0);
  });
});
