import { findFault, FaultError, type Fault } from "@muster/faults";
import { KubeError, toKubeFault } from "@muster/kube";
import { describe, expect, it } from "vitest";
import { KIND, nameOf, NAMESPACE, testJob, testMember } from "../../test/member-world.ts";
import { buildJobLabels } from "../domain/member-labels.ts";
import { buildOwnerReference, type JobObject, type MemberObject } from "../domain/ownership.ts";
import { claimMembers, recheckDeletionTimestamp, recheckVersion } from "./claim-members.ts";
import type { MemberCalls } from "./member-calls.ts";

const job = testJob("mnist");
const reference = buildOwnerReference(KIND, job.metadata);
const selector = buildJobLabels(KIND.labelKeys, job.metadata);

/** An API server that accepts patches; `refuse` decides which patches fail. */
function patches(refuse: (name: string) => Error | undefined = () => undefined) {
  const seen: { readonly name: string; readonly patch: object }[] = [];
  const patch = (namespace: string, name: string, body: object): Promise<MemberObject> => {
    expect(namespace).toBe(NAMESPACE);
    seen.push({ name, patch: body });
    const error = refuse(name);
    return error === undefined ? Promise.resolve({ metadata: { name, namespace } }) : Promise.reject(error);
  };
  return { seen, patch };
}

type ClaimDeps = {
  readonly patch: MemberCalls<MemberObject>["patch"];
  readonly canAdopt: () => Promise<void>;
};

const claim = (members: readonly MemberObject[], { patch, canAdopt }: ClaimDeps) =>
  claimMembers(job, { labels: selector, owner: reference, canAdopt }, members, patch);

describe("claimMembers", () => {
  it("keeps, adopts with the member's uid, and releases one owner only", async () => {
    const { seen, patch } = patches();
    const members = [
      testMember("mnist", "worker", 0, { owner: job }),
      testMember("mnist", "worker", 1),
      testMember("mnist", "worker", 2, { owner: job, labels: {} }),
      testMember("mnist", "worker", 3, { owner: testJob("other") }),
    ];
    const { claimed, errors } = await claim(members, { patch, canAdopt: () => Promise.resolve() });
    expect(errors).toEqual([]);
    expect(claimed.map(nameOf)).toEqual(["mnist-worker-0", "mnist-worker-1"]);
    // Patches run concurrently, so their order is undefined.
    expect(seen.sort((a, b) => a.name.localeCompare(b.name))).toEqual([
      {
        name: "mnist-worker-1",
        patch: { metadata: { uid: "uid-of-mnist-worker-1", ownerReferences: [reference] } },
      },
      {
        name: "mnist-worker-2",
        patch: {
          metadata: { uid: "uid-of-mnist-worker-2", ownerReferences: [{ $patch: "delete", uid: "uid-of-mnist" }] },
        },
      },
    ]);
  });

  it("returns all claimed members together with all errors", async () => {
    const { patch } = patches((name) => (name.endsWith("1") ? undefined : new KubeError("PATCH", 500, {})));
    const members = [0, 1, 2].map((index) => testMember("mnist", "worker", index));
    const { claimed, errors } = await claim(members, { patch, canAdopt: () => Promise.resolve() });
    expect(claimed.map(nameOf)).toEqual(["mnist-worker-1"]);
    expect(errors.map((error) => error.message)).toEqual([
      "claiming team/mnist-worker-0: adopt because selected-orphan",
      "claiming team/mnist-worker-2: adopt because selected-orphan",
    ]);
  });

  it("ignores members that are gone, or no longer have such an owner", async () => {
    const codes: Record<string, number> = {
      "mnist-worker-0": 404,
      "mnist-worker-1": 404,
      "mnist-worker-2": 422,
      "mnist-worker-3": 409,
    };
    const { patch } = patches((name) => new KubeError("PATCH", codes[name] ?? 500, {}));
    const members = [
      testMember("mnist", "worker", 0),
      ...[1, 2, 3].map((index) => testMember("mnist", "worker", index, { owner: job, labels: {} })),
    ];
    expect(await claim(members, { patch, canAdopt: () => Promise.resolve() })).toEqual({ claimed: [], errors: [] });
  });

  it("reports a conflict when another client was faster", async () => {
    const { patch } = patches(() => new KubeError("PATCH", 422, {}));
    const orphan = testMember("mnist", "worker", 0);
    const { claimed, errors } = await claim([orphan], { patch, canAdopt: () => Promise.resolve() });
    expect([claimed, errors.map((error) => toKubeFault(error)?.code)]).toEqual([[], ["conflict"]]);
  });

  it("checks once whether it may adopt, and only if an orphan exists", async () => {
    let asked = 0;
    const getFreshJob = () => {
      asked += 1;
      return Promise.resolve(testJob("mnist", { deleting: true }));
    };
    const { seen, patch } = patches();
    const canAdopt = recheckDeletionTimestamp(job, getFreshJob);
    await claim([testMember("mnist", "worker", 0, { owner: job })], { patch, canAdopt });
    expect(asked).toBe(0);
    const orphans = [1, 2].map((index) => testMember("mnist", "worker", index));
    const { claimed, errors } = await claim(orphans, { patch, canAdopt });
    expect([claimed, errors.length, asked, seen]).toEqual([[], 2, 1, []]);
  });
});

describe("recheckDeletionTimestamp", () => {
  const ask = (answer: () => Promise<JobObject>) =>
    recheckDeletionTimestamp(job, answer)().then(
      () => "may adopt" as const,
      (error: unknown) => error,
    );

  it("lets the same existing job adopt", async () => {
    expect(await ask(() => Promise.resolve(job))).toBe("may adopt");
  });

  it.each<[string, JobObject, Fault["code"]]>([
    ["another job of that name", testJob("mnist", { uid: "next" }), "not_found"],
    ["a job that is deleted", testJob("mnist", { deleting: true }), "conflict"],
  ])("refuses %s", async (_what, fresh, code) => {
    expect(findFault(await ask(() => Promise.resolve(fresh)))?.code).toBe(code);
  });

  it("refuses when the job cannot be read, and remembers the refusal", async () => {
    let reads = 0;
    const unread = new FaultError({ code: "unavailable", dependency: "kubernetes", retryAfterMs: 0 });
    const canAdopt = recheckDeletionTimestamp(job, () => {
      reads += 1;
      return Promise.reject(unread);
    });
    for (let time = 0; time < 3; time += 1) {
      await expect(canAdopt()).rejects.toMatchObject({
        message: "can't recheck the deletion timestamp of team/mnist",
        cause: unread,
      });
    }
    expect(reads).toBe(1);
  });
});

describe("recheckVersion", () => {
  const at = (resourceVersion: string, more: Parameters<typeof testJob>[1] = {}): JobObject => ({
    metadata: { ...testJob("mnist", more).metadata, resourceVersion },
  });
  const ask = (fresh: JobObject) =>
    recheckVersion(at("5"), "5", () => Promise.resolve(fresh)).then(
      () => "may create" as const,
      (error: unknown) => findFault(error),
    );

  it("lets the planned version create pods", async () => {
    expect(await ask(at("5"))).toBe("may create");
  });

  it.each<[string, JobObject, object]>([
    ["a later version", at("6"), { code: "conflict", expectedRevision: 5, actualRevision: 6 }],
    ["an earlier version, as after a restore", at("4"), { code: "conflict", actualRevision: 4 }],
    ["a job that is deleted", at("5", { deleting: true }), { code: "conflict" }],
    ["another job of that name", at("5", { uid: "next" }), { code: "not_found" }],
  ])("refuses %s", async (_what, fresh, fault) => {
    expect(await ask(fresh)).toMatchObject(fault);
  });
});
