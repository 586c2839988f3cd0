import { type Kind, NO_DESCRIPTION } from "./kind.ts";
import { makeKubeflowKind, listMembers, findReplica, buildSuccessRules } from "./kubeflow.ts";
import { buildMemberName } from "./member-names.ts";

const PORT_NUMBER = 6666;

/** JAX has only workers. The first one coordinates, and all must succeed. */
export const JAXJOB_KIND: Kind = makeKubeflowKind({
  kind: "JAXJob",
  plural: "jaxjobs",
  replicaSpecs: "jaxReplicaSpecs",
  types: [{ name: "Worker", replicasDefault: 1, single: false }],
  restartPolicyDefault: "Never",
  container: { name: "jax", required: true },
  port: { name: "jaxjob-port", number: PORT_NUMBER },
  finish: (_spec, drafts) => ({ drafts, success: buildSuccessRules(drafts, "worker", "all"), settings: {} }),
  describeCluster: (job, member, spec) => ({
    ...NO_DESCRIPTION,
    env: [
      { name: "PYTHONUNBUFFERED", value: "1" },
      { name: "COORDINATOR_ADDRESS", value: buildMemberName(job, { type: "worker", index: 0 }) },
      { name: "COORDINATOR_PORT", value: String(findReplica(spec, "worker")?.port?.number ?? PORT_NUMBER) },
      { name: "NUM_PROCESSES", value: String(listMembers(spec)) },
      { name: "PROCESS_ID", value: String(member.index) },
    ],
  }),
  companions: () => [],
});
