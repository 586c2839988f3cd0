import { FLAKY, GANG_CODE, type JobShape, type ReplicaShape } from "./plan-jobs.ts";

const KILL_AFTER_S = 1;
const QUEUE_LABEL = "muster.dev/queue";
const SHARING_ANNOTATION = "muster.dev/sharing";

/** Builds the manifest of a job: pods for simulated nodes, which act on their command. */
export function buildJob(shape: JobShape): object {
  const { name, queue, types, winner, restartsAll, backoffLimit, deadlineS, cleanPodPolicy, ttlS } = shape;
  const isShared = types.some(({ requests }) => requests !== undefined);
  return {
    apiVersion: "muster.dev/v1",
    kind: "Job",
    metadata: {
      name,
      labels: { [QUEUE_LABEL]: queue },
      ...(isShared && { annotations: { [SHARING_ANNOTATION]: "shared" } }),
    },
    spec: {
      replicaSpecs: Object.fromEntries(types.map((type) => [type.type, buildReplica(type)])),
      runPolicy: {
        backoffLimit,
        cleanPodPolicy,
        ...(deadlineS !== undefined && { activeDeadlineSeconds: deadlineS }),
        ...(ttlS !== undefined && { ttlSecondsAfterFinished: ttlS }),
      },
      ...(winner !== undefined && { successPolicy: { rules: [{ allOf: [{ type: winner }] }] } }),
      ...(restartsAll && {
        failurePolicy: {
          rules: [{ action: "RestartJob", replicaTypes: [FLAKY], onExitCodes: { values: [GANG_CODE] } }],
        },
      }),
    },
  };
}

function buildReplica({ replicas, pool, restartPolicy, after, requests, ...does }: ReplicaShape): object {
  const { startMs, readyMs, ends, termMs } = does;
  const command = [
    "simulate",
    `--start-ms=${startMs}`,
    ...(readyMs === undefined ? [] : [`--ready-ms=${readyMs}`]),
    ...(ends === undefined ? [] : [`--run-ms=${ends.afterMs}`, `--exit=${ends.code}`]),
    ...(termMs === undefined ? ["--ignore-term"] : [`--term-ms=${termMs}`]),
  ];
  return {
    replicas,
    pool,
    restartPolicy,
    ...(after !== undefined && { dependsOn: [{ type: after, status: "Ready" }] }),
    template: {
      spec: {
        terminationGracePeriodSeconds: KILL_AFTER_S,
        containers: [
          { name: "main", image: "chaos", command, ...(requests !== undefined && { resources: { requests } }) },
        ],
      },
    },
  };
}
