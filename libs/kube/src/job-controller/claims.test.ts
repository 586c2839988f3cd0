import { faultOf, FaultError, type Fault } from "@muster/faults";
import { describe, expect, it } from "vitest";
import { KubeError } from "../kube-error.ts";
import { kubeFault } from "../kube-fault.ts";
import { KUBEFLOW_TFJOB, nameOf, NAMESPACE, testJob, testMember } from "../../test/job-world.ts";
import { claimMembers, recheckDeletionTimestamp } from "./claim-members.ts";
import { decideClaim } from "./claims.ts";
import type { JobObject } from "./controller-interface.ts";
import { genLabels } from "./member-labels.ts";
import type { Member } from "./member.ts";
import { genOwnerReference } from "./owner-reference.ts";

describe("decideClaim", () => {
  const OWNERS = { "another job's": "other", ours: "uid", "nobody's": undefined };
  const cells = [
    ["another job's", true, false, false, "ignore", "controlled-by-another"],
    ["another job's", true, true, false, "ignore", "controlled-by-another"],
    ["another job's", true, false, true, "ignore", "controlled-by-another"],
    ["another job's", true, true, true, "ignore", "controlled-by-another"],
    ["another job's", false, false, false, "ignore", "controlled-by-another"],
    ["another job's", false, true, false, "ignore", "controlled-by-another"],
    ["another job's", false, false, true, "ignore", "controlled-by-another"],
    ["another job's", false, true, true, "ignore", "controlled-by-another"],
    ["ours", true, false, false, "keep", "controlled-and-selected"],
    ["ours", true, true, false, "keep", "controlled-and-selected"],
    ["ours", true, false, true, "keep", "controlled-and-selected"],
    ["ours", true, true, true, "keep", "controlled-and-selected"],
    ["ours", false, false, false, "release", "no-longer-selected"],
    ["ours", false, true, false, "release", "no-longer-selected"],
    ["ours", false, false, true, "ignore", "no-longer-selected-by-a-job-that-is-deleted"],
    ["ours", false, true, true, "ignore", "no-longer-selected-by-a-job-that-is-deleted"],
    ["nobody's", true, false, false, "adopt", "selected-orphan"],
    ["nobody's", true, true, false, "ignore", "orphan-that-is-deleted"],
    ["nobody's", true, false, true, "ignore", "orphan-of-a-job-that-is-deleted"],
    ["nobody's", true, true, true, "ignore", "orphan-of-a-job-that-is-deleted"],
    ["nobody's", false, false, false, "ignore", "orphan-not-selected"],
    ["nobody's", false, true, false, "ignore", "orphan-not-selected"],
    ["nobody's", false, false, true, "ignore", "orphan-not-selected"],
    ["nobody's", false, true, true, "ignore", "orphan-not-selected"],
  ] as const;
  const named = cells.map(([owner, isSelected, isDeleting, jobIsDeleting, verdict, because]) => ({
    member: { owner, isSelected, isDeleting },
    jobIsDeleting,
    decided: { do: verdict, because },
  }));
  it.each(named)("of $member by a job deleting $jobIsDeleting is $decided", ({ member, jobIsDeleting, decided }) => {
    const { owner, ...state } = member;
    const claimant = { uid: "uid", isDeleting: jobIsDeleting };
    expect(decideClaim(claimant, { ...state, controllerUid: OWNERS[owner] })).toEqual(decided);
  });

  it("has a cell above for every combination", () => {
    expect(new Set(cells.map((cell) => cell.slice(0, 4).join())).size).toBe(3 * 2 * 2 * 2);
  });
});

const job = testJob("mnist");
const reference = genOwnerReference(KUBEFLOW_TFJOB.apiGroupVersionKind, job);
const selector = genLabels(KUBEFLOW_TFJOB, "mnist");

/** An API server that has what it is given; `refuse` decides which patches fail. */
function patches(refuse: (name: string) => Error | undefined = () => undefined) {
  const seen: { readonly name: string; readonly patch: object }[] = [];
  const patch = (namespace: string, name: string, body: object): Promise<Member> => {
    expect(namespace).toBe(NAMESPACE);
    seen.push({ name, patch: body });
    const error = refuse(name);
    return error === undefined ? Promise.resolve({ metadata: { name, namespace } }) : Promise.reject(error);
  };
  return { seen, patch };
}

const claim = (members: readonly Member[], deps: Parameters<typeof claimMembers>[4], claimant = job) =>
  claimMembers(claimant, reference, selector, members, deps);

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
    // Patches go side by side.
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

  it("returns what it could claim together with all errors", async () => {
    const { patch } = patches((name) => (name.endsWith("1") ? undefined : new KubeError("PATCH", 500, {})));
    const members = [0, 1, 2].map((index) => testMember("mnist", "worker", index));
    const { claimed, errors } = await claim(members, { patch, canAdopt: () => Promise.resolve() });
    expect(claimed.map(nameOf)).toEqual(["mnist-worker-1"]);
    expect(errors.map((error) => error.message)).toEqual([
      "claiming team/mnist-worker-0: adopt because selected-orphan",
      "claiming team/mnist-worker-2: adopt because selected-orphan",
    ]);
  });

  it("does not mind members that went away, or had no such owner any more", async () => {
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

  it("has a conflict when somebody else was faster", async () => {
    const { patch } = patches(() => new KubeError("PATCH", 422, {}));
    const orphan = testMember("mnist", "worker", 0);
    const { claimed, errors } = await claim([orphan], { patch, canAdopt: () => Promise.resolve() });
    expect([claimed, errors.map((error) => kubeFault(error)?.code)]).toEqual([[], ["conflict"]]);
  });

  it("asks once whether it may adopt, and only when there is an orphan", async () => {
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

  it("lets the same living job adopt", async () => {
    expect(await ask(() => Promise.resolve(job))).toBe("may adopt");
  });

  it.each<[string, JobObject, Fault["code"]]>([
    ["another job of that name", testJob("mnist", { uid: "next" }), "not_found"],
    ["a job that is deleted", testJob("mnist", { deleting: true }), "conflict"],
  ])("refuses %s", async (_what, fresh, code) => {
    expect(faultOf(await ask(() => Promise.resolve(fresh)))?.code).toBe(code);
  });

  it("refuses when the job cannot be read, and remembers that", async () => {
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
