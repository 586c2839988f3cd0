import { openInformer, type KubeObject, listWatch, loadKube } from "@muster/kube";
import { getJobMilestone, type Milestone } from "./domain/milestone.ts";
import type { JobSeen } from "./domain/observed.ts";

/** Observes every change of every job, past the injected faults. */
export type JobObserver = AsyncDisposable & {
  /** Every job that ever existed, by its unique name. */
  readonly history: () => ReadonlyMap<string, JobSeen>;
  readonly exists: (job: string) => boolean;
  /** Milestone of the job; undefined before the first observation. */
  readonly milestone: (job: string) => Milestone | undefined;
  /** Calls the listener with the name of each changed job. Returns a function that removes the listener. */
  readonly onChange: (listener: (job: string) => void) => () => void;
};

type JobObject = KubeObject & {
  readonly status?: {
    readonly startTime?: string | null;
    readonly conditions?: readonly Condition[];
    readonly replicaStatuses?: Readonly<Record<string, { readonly active?: number }>>;
  };
};
type Condition = { readonly type: string; readonly status: string; readonly reason?: string };

type Kept = {
  readonly name: string;
  readonly createdAtMs: number;
  readonly milestone: Milestone;
  /** Empty before its end. */
  readonly end: string;
  readonly state: string;
};

type Life = { -readonly [Key in keyof JobSeen]: JobSeen[Key] extends readonly string[] ? string[] : JobSeen[Key] };

/** The namespace of all work. */
export const NAMESPACE = "default";
const JOBS = `/apis/muster.dev/v1/namespaces/${NAMESPACE}/jobs`;
const TERMINAL = ["Succeeded", "Failed"];

export async function startJobObserver(kubeconfig: string): Promise<JobObserver> {
  const lives = new Map<string, Life>();
  const jobs = openInformer<JobObject, Kept>({
    source: listWatch<JobObject>(loadKube(kubeconfig), JOBS),
    project: keep,
    timing: { minBackoffMs: 50, maxBackoffMs: 500 },
  });
  jobs.onChange(({ before, after }) => {
    if (after === undefined) {
      const life = lives.get(before?.name ?? "");
      if (life !== undefined) life.goneMs = Date.now();
      return;
    }
    const { name, createdAtMs, end, state } = after;
    const life = lives.get(name) ?? { name, createdAtMs, ends: [], endedAtMs: undefined, goneMs: undefined, state };
    lives.set(name, life);
    life.state = state;
    if (end === (life.ends.at(-1) ?? "")) return;
    life.ends.push(end === "" ? "none" : end);
    life.endedAtMs ??= Date.now();
  });
  await jobs.synced;
  const find = (name: string): Kept | undefined => jobs.get(`${NAMESPACE}/${name}`);
  return {
    history: () => lives,
    exists: (name) => find(name) !== undefined,
    milestone: (name) => find(name)?.milestone ?? (lives.get(name)?.goneMs === undefined ? undefined : "over"),
    onChange: (listener) => jobs.onChange(({ before, after }) => listener((after ?? before)?.name ?? "")),
    [Symbol.asyncDispose]: () => jobs[Symbol.asyncDispose](),
  };
}

function keep({ metadata, status }: JobObject): Kept {
  const isTrue = (status?.conditions ?? []).filter((condition) => condition.status === "True");
  const has = (type: string): boolean => isTrue.some((condition) => condition.type === type);
  const ends = isTrue.filter(({ type }) => TERMINAL.includes(type));
  const replicas = Object.values(status?.replicaStatuses ?? {});
  return {
    name: metadata?.name ?? "",
    createdAtMs: new Date(metadata?.creationTimestamp ?? 0).getTime(),
    milestone: getJobMilestone({
      hasMachines: has("MachinesReserved"),
      anyPodActive: replicas.some(({ active = 0 }) => active > 0),
      isRunning: has("Running"),
      isOver: ends.length > 0,
    }),
    end: ends.map(({ type, reason = "" }) => (type === "Succeeded" ? type : `${type} ${reason}`)).join(" and "),
    state: (status?.conditions ?? []).map(({ type, status: is, reason = "" }) => `${type}=${is} ${reason}`).join(", "),
  };
}
