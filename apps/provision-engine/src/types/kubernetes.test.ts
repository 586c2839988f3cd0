import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { buildKubeconfig, buildSliceQuota, computeTokenSeconds } from "./kubernetes.ts";

type Rule = { apiGroups: string[]; resources: string[]; verbs: string[] };

/** The expansion of `*`. */
const ALL: Readonly<Record<string, readonly string[]>> = {
  autoscaling: ["horizontalpodautoscalers"],
  batch: ["cronjobs", "jobs"],
  "events.k8s.io": ["events"],
  policy: ["poddisruptionbudgets"],
};

/** Removes subresources, as quotas name the kinds. */
function kindsOf({ apiGroups, resources }: Rule): string[] {
  return apiGroups.flatMap((group) =>
    resources
      .flatMap((resource) => (resource === "*" ? (ALL[group] ?? [resource]) : resource))
      .filter((resource) => !resource.includes("/"))
      .map((resource) => (group === "" ? resource : `${resource}.${group}`)),
  );
}

it("limits a slice to its size, with a share of its disk for its pods", () => {
  const { hard } = buildSliceQuota("n", 3).spec;
  expect(hard).toMatchObject({
    "requests.cpu": "2",
    "limits.cpu": "2",
    "requests.memory": "8Gi",
    "limits.memory": "8Gi",
    "requests.ephemeral-storage": "5Gi",
    "limits.ephemeral-storage": "5Gi",
    "requests.storage": "20Gi",
    "services.nodeports": "0",
    "services.loadbalancers": "0",
    "count/pods": "40",
    "count/jobs.batch": "100",
  });
});

it("counts each kind that the role of slices lets users create", async () => {
  const text = await readFile(new URL("../../../../deploy/kubernetes/slices.yaml", import.meta.url), "utf8");
  const role = parseAllDocuments(text)
    .map((document) => document.toJS() as { kind: string; metadata: { name: string }; rules: Rule[] })
    .find(({ kind, metadata }) => kind === "ClusterRole" && metadata.name === "muster-lease");
  const makes = (verbs: readonly string[]) => verbs.includes("*") || verbs.includes("create");
  const made = (role?.rules ?? []).filter(({ verbs }) => makes(verbs)).flatMap(kindsOf);
  const hard = Object.keys(buildSliceQuota("n", 1).spec.hard);
  // Events expire after an hour, so no quota counts them.
  const uncounted = made.filter((kind) => !hard.includes(`count/${kind}`) && !/^events(\.|$)/.test(kind));
  expect(made).toContain("deployments.apps");
  expect(uncounted).toEqual([]);
});

it("requests a token until the lease ends, within the limits of Kubernetes", () => {
  const second = 1_000_000_000n;
  expect(computeTokenSeconds(1001n * second + 1n, second)).toBe(1001);
  expect(computeTokenSeconds(1n, second)).toBe(600);
  expect(computeTokenSeconds(2n ** 63n, 0n)).toBe(2 ** 32);
});

it("names the slice, its server and the token, and an authority only if there is one", () => {
  const access = { url: "https://k:6443", ca: "PEM", namespace: "n", token: "t" };
  expect(JSON.parse(buildKubeconfig(access))).toMatchObject({
    clusters: [{ cluster: { server: "https://k:6443", "certificate-authority-data": "UEVN" } }],
    users: [{ user: { token: "t" } }],
    contexts: [{ context: { namespace: "n" } }],
  });
  expect(buildKubeconfig({ ...access, ca: undefined })).not.toContain("certificate-authority");
});
