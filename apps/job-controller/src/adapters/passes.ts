import { describeFault, faultOf } from "@muster/faults";
import { kubeFault, type KubeCalls, type RecordEvent } from "@muster/kube";
import { annotations, labels } from "@muster/proto";
import type { Nodes } from "@muster/watch";
import type { ServiceContext } from "@muster/service";
import type { Config } from "../config.ts";
import type { JobStatus } from "../domain/job-status.ts";
import { isEndRecorded } from "../domain/is-end-recorded.ts";
import { JOB_KIND } from "../domain/kind-job.ts";
import { reconcile } from "../reconcile.ts";
import { act, type ActDeps } from "./act.ts";
import { fenced, type Fence } from "./fence.ts";
import type { KindRuntime } from "./kind-runtime.ts";
import type { Machines } from "./machines.ts";
import { observe, type Observation, type ObserveDeps } from "./observe.ts";
import type { PodGroups } from "./pod-groups.ts";
import type { JobRow } from "./read-job.ts";
import { telling } from "./tell-passes.ts";
import { inPass, inStep } from "./trace.ts";
import type { World } from "./world.ts";
import { writeStatus } from "./write-status.ts";

export type PassWorld = {
  readonly calls: KubeCalls;
  readonly world: World;
  readonly groups: PodGroups;
  readonly machines: Machines;
  readonly nodes: Nodes;
  /** Id of ours. */
  readonly installation: string;
  readonly recordEvent: RecordEvent<JobRow>;
};

type Seen = Observation & { readonly job: JobRow };

/** One pass over the job of a key, as long as this process leads. */
export type Pass = (
  runtime: KindRuntime,
  key: string,
  lead: { readonly signal: AbortSignal; readonly holds: Fence },
) => Promise<{ readonly requeueAfterMs?: number }>;

/** What stands behind each verb of a pass. */
export function makePasses(context: ServiceContext<Config>, passWorld: PassWorld): Pass {
  const { config, logger } = context;
  const { calls, recordEvent, world } = passWorld;
  const observing = observeDeps(config, passWorld);
  const acting = actDeps(config, passWorld);
  const policy = { ...config.policy, statusEveryMs: config.statusEveryMs, postponeMostMs: config.postponeMostMs };
  const onDropped = tellDrop(logger);
  const { tell, planned, failed } = telling(recordEvent, logger, config.policy);
  return (runtime, key, { signal, holds }) => {
    const write = async ({ job }: Seen, status: JobStatus): Promise<"written" | "gone"> => {
      const written = await writeStatus({ calls, onDropped }, runtime.resource, job, status).catch((error: unknown) => {
        if (kubeFault(error)?.code === "conflict") runtime.distrust(key);
        throw error;
      });
      if (written === undefined) return "gone";
      runtime.wrote(written);
      tell(job, status);
      return "written";
    };
    return reconcile<Seen>(
      {
        observe: async () => {
          const job = runtime.job(key);
          return job === undefined ? undefined : { ...(await observe(observing, runtime, job)), job };
        },
        act: async (seen, step) => {
          signal.throwIfAborted();
          await inStep(seen.job, step, () => act(acting, { runtime, job: seen.job, seen, signal, holds }, step));
        },
        // A process that goes on after it was frozen may come here before anything has told it to stop.
        writeStatus: fenced(holds, (seen: Seen, status: JobStatus) => {
          signal.throwIfAborted();
          return write(seen, status);
        }),
        recorded: ({ job, ends, snapshot }, status) => {
          const written = ends.filter(({ pod }) => isEndRecorded(pod, snapshot.spec, status));
          world.ends.forget(
            job.metadata.uid,
            written.map(({ pod }) => pod.uid),
          );
          // Nothing else tells that their members may be made anew.
          if (written.some(({ isGone }) => isGone)) runtime.wake(key);
        },
        planned,
        failed: (seen, step, error) => {
          if (!signal.aborted) failed(seen, step, error);
        },
        inPass: ({ job }, plan, work) => inPass(job, plan, work),
        wakeAfter: (ms) => runtime.wakeAfter(key, ms),
        sinceWriteMs: () => runtime.sinceWriteMs(key),
        busyForMs: runtime.busyForMs,
      },
      policy,
    );
  };
}

function observeDeps(config: Config, { calls, machines, world, groups, nodes }: PassWorld): ObserveDeps {
  return {
    calls,
    machines,
    budgetOf: world.budgetOf,
    groupsOf: groups.groupsOf,
    podNamed: (namespace, name) => world.pods.get(`${namespace}/${name}`),
    podsMadeFor: (ownerId) => world.pods.byIndex("owner", ownerId),
    lostAmong: nodes.lostAmong,
    endsOf: world.ends.of,
    defaults: config.defaults,
    now: Date.now,
  };
}

function actDeps(config: Config, { calls, machines, installation, recordEvent }: PassWorld): ActDeps {
  return {
    calls,
    machines,
    policy: {
      keys: { labels, annotations },
      installation,
      defaults: config.defaults,
      schedulingGates: [],
      gangScheduling: config.policy.gangScheduling,
    },
    warn: (job, reason, message) => recordEvent(job, "Warning", reason, message),
  };
}

/** Once for the process: the definition is the same for every job. */
function tellDrop(logger: ServiceContext<Config>["logger"]): () => void {
  let isTold = false;
  return () => {
    if (isTold) return;
    isTold = true;
    const message =
      "the API server drops a part of the status: its definition is older, and annotations keep that part";
    logger.warn({ definition: `${JOB_KIND.plural}.${JOB_KIND.group}` }, message);
  };
}

/** What a pass that failed is called in logs. */
export function describePassError(error: unknown): string {
  if (error instanceof AggregateError) {
    const all = error.errors.map(describePassError);
    return all.includes("defect") ? "defect" : all.join("; ");
  }
  const fault = faultOf(error) ?? kubeFault(error);
  return fault === undefined ? "defect" : describeFault(fault);
}
