import type { Member } from "./job.ts";
import { type Kind, NO_DESCRIPTION } from "./kind.ts";
import { listAddresses, makeKubeflowKind, listMembers, buildHeadSuccessRules, buildSuccessRules } from "./kubeflow.ts";
import type { ReplicaDraft } from "./read-manifest.ts";

const CONTAINER = "tensorflow";
const HEADS = ["chief", "master"];
const type = (name: string, single = false) => ({ name, replicasDefault: 1, single });

/** TensorFlow's processes find each other through TF_CONFIG. The chief or master decides about success, or else worker 0. */
export const TFJOB_KIND: Kind = makeKubeflowKind({
  kind: "TFJob",
  plural: "tfjobs",
  replicaSpecs: "tfReplicaSpecs",
  types: [type("Chief", true), type("Master", true), type("PS"), type("Worker"), type("Evaluator")],
  restartPolicyDefault: "Never",
  container: { name: CONTAINER, required: true },
  port: { name: "tfjob-port", number: 2222 },
  finish: (spec, drafts) => {
    const dynamic = spec.flag("enableDynamicWorker") ?? false;
    const all = spec.oneOf("successPolicy", ["", "AllWorkers"]) === "AllWorkers";
    if (drafts.filter(({ type: each }) => HEADS.includes(each)).length > 1)
      spec.refuse("tfReplicaSpecs", "has a Chief and a Master; one of them at most");
    const ignoring = (draft: ReplicaDraft) => ({ ...draft, failuresIgnored: dynamic && draft.type === "worker" });
    return {
      drafts: drafts.map(ignoring),
      success: buildHeadSuccessRules(drafts, HEADS, buildSuccessRules(drafts, "worker", all ? "all" : [0])),
      settings: { enableDynamicWorker: String(dynamic) },
    };
  },
  describeCluster: (job, member, spec, defaults) => {
    // A single process must not wait for a cluster.
    if (listMembers(spec) === 1) return { ...NO_DESCRIPTION, containers: [CONTAINER] };
    const cluster = Object.fromEntries(
      spec.replicas
        .map((replica) => [replica.type, listAddresses(job, replica, defaults)] as const)
        .sort(([a], [b]) => (a < b ? -1 : 1)),
    );
    const config =
      spec.settings?.["enableDynamicWorker"] === "true" ? sparseConfig(cluster, member) : denseConfig(cluster, member);
    return { ...NO_DESCRIPTION, containers: [CONTAINER], env: [{ name: "TF_CONFIG", value: JSON.stringify(config) }] };
  },
  companions: () => [],
});

type Cluster = Readonly<Record<string, readonly string[]>>;

function denseConfig(cluster: Cluster, task: Member): unknown {
  return { cluster, task: { type: task.type, index: task.index }, environment: "cloud" };
}

/** In an elastic cluster, a worker knows the parameter servers and itself, and a parameter server only itself. */
function sparseConfig(cluster: Cluster, { type: own, index }: Member): unknown {
  const itself = cluster[own]?.[index] ?? "";
  return {
    cluster: {
      worker: own === "worker" ? { [index]: itself } : {},
      ps: own === "worker" ? (cluster["ps"] ?? []) : own === "ps" ? [itself] : [],
    },
    task: { type: own, index },
  };
}
