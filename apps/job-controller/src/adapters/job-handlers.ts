import { EventEmitter } from "node:events";
import { computeBackoffMs, pause } from "@muster/backoff";
import type { Handlers } from "@muster/bus";
import { FaultError, throwFault } from "@muster/faults";
import type { ExplainCalls } from "@muster/ledger-client";
import type { LeftoverPod } from "@muster/ledger-client/explanation";
import { toKubeFault, requireKubeFault, type KubeCalls, unlessMissing } from "@muster/kube";
import { BATCH_KINDS } from "@muster/names";
import { annotations, type JobService, muster } from "@muster/proto";
import { getTraceparent } from "@muster/tracing";
import { findFollowedNamespace, type Config } from "../config.ts";
import { buildOwnerId } from "../domain/build-units.ts";
import { isFinished } from "../domain/job-status.ts";
import { buildJobKey } from "../domain/ownership.ts";
import { KINDS } from "../domain/kinds.ts";
import type { Kind } from "../domain/kind.ts";
import { readLog } from "../read-log.ts";
import {
  cancelJob,
  checkJob,
  getJob,
  listJobs,
  refuseIncompleteCaches,
  submitJob,
  suspendJob,
  watchJob,
  type FoundJob,
  type JobKey,
  type JobManifest,
  type RequestDeps,
} from "../requests.ts";
import type { UnservedJobs } from "./unserved-jobs.ts";
import type { BatchJobs } from "./batch/batch-jobs.ts";
import { explainAnswer } from "./explain-answer.ts";
import { explainStart } from "./explain-start.ts";
import { toWireJob, buildRevision } from "./job-messages.ts";
import type { Queues } from "./follow-queues.ts";
import type { KindRuntime } from "./kind-runtime.ts";
import { OWNER_KIND, type Machines } from "./machines.ts";
import type { MemberLogs } from "./member-log.ts";
import { readEvents } from "./read-events.ts";
import { buildJobPlace, readJob, parseVersion, type JobResource, type JobRow } from "./read-job.ts";
import { toPodFact } from "./read-pod.ts";
import type { ServedJobs } from "./served-jobs.ts";
import { listLeftoverPods } from "./sweep.ts";
import { waitForOwnerChange } from "./wait-for-owner-change.ts";
import type { World } from "./world.ts";

type AnswerDeps = {
  /** The other services that an explanation calls. */
  readonly asking: Pick<ExplainCalls, "reservations" | "nodes">;
  readonly served: ServedJobs;
  readonly elsewhere: Pick<UnservedJobs, "unserved" | "isRefused" | "isCut">;
  readonly logs: MemberLogs;
  readonly config: Config;
  readonly calls: KubeCalls;
  readonly world: World;
  readonly machines: Machines;
  readonly runtimes: () => readonly KindRuntime[];
  readonly kindsGone: () => readonly string[];
  /** Kinds that the controller has no right to read. */
  readonly kindsRefused: () => readonly Kind[];
  /** Kinds that are not known to be installed or missing. */
  readonly kindsUnknown: () => readonly Kind[];
  /** Kinds that may have jobs outside every cache. */
  readonly kindsUnread: () => readonly Kind[];
  readonly queues: Pick<Queues, "isRefused" | "isUnserved" | "choose">;
  /** Undefined if this process runs no batch Jobs. */
  readonly batchJobs: Pick<BatchJobs, "refused" | "explain"> | undefined;
};

type View = {
  readonly job: JobRow;
  /** Builds a message that shows every member; it is built only when it is sent. */
  readonly message: () => muster.job.v1.Job.$Properties;
};

/** Maximum number of pods without a job in one list. */
const MAX_PODS_LEFT = 100;
/** Maximum number of jobs of other namespaces in one list. */
const MAX_JOBS_ELSEWHERE = 100;
/** Interval after which a new job is read again. */
const UNKNOWN_WAIT_MS = 200;
/** Pauses between reads of a job whose cached version is higher than the API server's. */
const AHEAD_PAUSES = { firstMs: 50, maxMs: 2000 };
/** If the API server does not answer within this time, the client gets an error. */
const READ_TIMEOUT_MS = 5000;

/** Answers users on every replica, leader or not: single jobs from the API server, lists from the caches. */
export function makeJobHandlers(
  deps: AnswerDeps,
): Handlers<typeof JobService> & { readonly changed: (ownerId: string) => void } {
  const ownerChanges = new EventEmitter();
  ownerChanges.setMaxListeners(0);
  const requests = requestDeps(deps, ownerChanges);
  const keyOf = (key = muster.job.v1.JobKey.create()): JobKey => {
    return { kind: key.kind, name: key.name, namespace: key.namespace };
  };
  const reply = ({ view }: FoundJob<View>): { job: muster.job.v1.Job.$Properties } => ({ job: view.message() });
  const whole = ({ view }: FoundJob<View>): { job: muster.job.v1.Job.$Properties } => ({
    job: { ...view.message(), manifestJson: JSON.stringify(view.job.resource) },
  });
  // Members are read from caches.
  const refuseEarly = (): void => refuseIncompleteCaches(deps.world.unread());
  return {
    changed: (ownerId) => ownerChanges.emit(ownerId),
    submitJob: async (request) => {
      const { found, warnings } = await submitJob(requests, request);
      return { ...whole(found), warnings };
    },
    checkJob: async ({ manifestJson }) => {
      const { problems, warnings } = await checkJob(requests, manifestJson);
      return { problems, warnings };
    },
    getJob: async ({ key }, { signal }) => {
      refuseEarly();
      return whole(await getJob(requests, keyOf(key), signal));
    },
    explainJob: async ({ key }, { signal }) => {
      refuseEarly();
      const find = async (): Promise<View> => (await getJob(requests, keyOf(key), signal)).view;
      return { explanation: await explain(deps, keyOf(key), find) };
    },
    watchJob: async ({ key, afterRevision, waitMs }, { signal }) => {
      refuseEarly();
      return reply(await watchJob(requests, { key: keyOf(key), afterRevision, waitMs }, signal));
    },
    listJobs: ({ continue: after, ...request }, { pageBytes: bytes }) => {
      const { jobs, next } = listJobs(requests, { ...request, bytes, after });
      return Promise.resolve({
        jobs: jobs.map(({ view }) => view.message()),
        continue: next,
        kindsGone: [...deps.kindsGone()],
        kindsRefused: deps.kindsRefused().map(({ kind }) => kind),
        podsLeft: listPodsLeft(deps).map(({ owner, name, pod, node }) => {
          return { ownerId: owner.slice(OWNER_KIND.length + 1), job: name, pod, node };
        }),
        ...buildOtherNamespaces(deps),
        rightsMissing: rightsMissing(deps),
        namespaceWithoutQueue: deps.queues.isUnserved(),
        allNamespaces: deps.config.kube.jobNamespaces === "all",
      });
    },
    cancelJob: async ({ key }, { signal }) => reply(await cancelJob(requests, keyOf(key), signal)),
    suspendJob: async ({ key, suspended }, { signal }) =>
      reply(await suspendJob(requests, { key: keyOf(key), suspended }, signal)),
    listJobEvents: async ({ key }, { signal }) => {
      const found = await getJob(requests, keyOf(key), signal);
      return { events: await readEvents(deps.calls, found.view.job, signal).catch(throwAsFault) };
    },
    getJobLogs: async (request, { signal }) => {
      refuseEarly();
      const found = await getJob(requests, keyOf(request.key), signal);
      return readMemberLog(deps, ownerChanges, found.view.job, request, signal);
    },
  };
}

type JobPatch = {
  readonly metadata?: { readonly annotations: Readonly<Record<string, string>> };
  readonly spec?: { readonly runPolicy: { readonly suspend: boolean } };
};

function requestDeps(deps: AnswerDeps, ownerChanges: EventEmitter): RequestDeps<View> {
  const { config, calls, machines, runtimes } = deps;
  const { namespace } = config.kube;
  const { servesNamespace, serves } = deps.served;
  const see = (job: JobRow): FoundJob<View> => viewJob(deps, job);
  /** Changes the job. Rejects with a conflict if it has changed since it was read. */
  const change = async ({ kind, metadata }: JobRow, patch: JobPatch): Promise<FoundJob<View>> => {
    const body = { ...patch, metadata: { ...patch.metadata, resourceVersion: metadata.resourceVersion } };
    const patched = await calls
      .patch<JobResource>(buildJobPlace(kind, metadata), metadata.name, { kind: "merge", body })
      .catch(throwAsFault);
    return see(readJob(patched, kind, config.defaults));
  };
  return {
    kinds: KINDS,
    defaults: config.defaults,
    namespace,
    servesNamespace,
    now: Date.now,
    find: async (key, signal) => (await findAtServer(deps, key, signal)).filter(serves).map(see),
    unread: () => listUnreadKinds(deps),
    listed: () =>
      runtimes().flatMap(({ kind, jobs }) =>
        jobs
          .list()
          .filter(serves)
          .map(({ metadata: { namespace: of, name, labels = {} } }) => {
            return { key: { kind: kind.kind, name, namespace: of }, labels };
          }),
      ),
    seen: ({ kind, name, namespace: of }) => {
      const row = runtimes()
        .find((runtime) => runtime.kind.kind === kind)
        ?.job(`${of || namespace}/${name}`);
      return row === undefined ? undefined : see(row);
    },
    encode: ({ view }) => muster.job.v1.Job.encode(view.message()).finish(),
    create: async (kind, manifest, requestId) => {
      const resource = signed(manifest, requestId);
      const created = await createJob(calls, { kind, resource });
      if (created !== undefined) return see(readJob(created, kind, config.defaults));
      const there = await readAtServer(deps, kind, manifest.metadata);
      if (there?.metadata.annotations?.[annotations.requestId] === requestId) return see(there);
      return throwFault({ code: "already_exists", kind: kind.kind, id: manifest.metadata.name });
    },
    tryCreate: (kind, manifest) => tryCreate(deps, kind, manifest),
    maxima: () => machines.maxima(),
    explainStart: (manifest, spec) => explainStart(deps, manifest, spec),
    isEnding: ({ view: { job } }) => job.cancelled || isFinished(job.status),
    isSuspended: ({ view: { job } }) => !("problems" in job.spec) && job.spec.suspend,
    markCancelled: ({ view: { job } }) => {
      const metadata = { annotations: { [annotations.cancelled]: new Date().toISOString() } };
      return change(job, { metadata });
    },
    setSuspended: ({ view: { job } }, suspended) => change(job, { spec: { runPolicy: { suspend: suspended } } }),
    pause,
    managedBy: ({ view: { job } }) => job.spec.managedBy,
    changed: ({ view: { job } }, wait, signal) => waitForChange(deps, ownerChanges, { job, ...wait, signal }),
  };
}

/** Pods and units come from the caches. */
function viewJob({ config, world, machines }: AnswerDeps, job: JobRow): FoundJob<View> {
  const ownerId = buildOwnerId(job.metadata);
  const pods = world.pods.byIndex("owner", ownerId).map(toPodFact);
  let built: muster.job.v1.Job.$Properties | undefined;
  return {
    key: { kind: job.kind.kind, name: job.metadata.name, namespace: job.metadata.namespace },
    revision: buildRevision(job, pods),
    members: job.shape.types.reduce((sum, { replicas }) => sum + replicas, 0),
    view: {
      job,
      message: () => {
        const surroundings = { pods, units: machines.unitsOf(ownerId), pauses: config.policy, nowMs: Date.now() };
        built ??= toWireJob(job, surroundings);
        return built;
      },
    },
  };
}

/** Reads the jobs with this name, of the given kind or of every kind. */
async function findAtServer(
  deps: AnswerDeps,
  { kind, ...named }: Required<JobKey>,
  signal: AbortSignal,
): Promise<JobRow[]> {
  const { config, runtimes } = deps;
  if (named.namespace !== (findFollowedNamespace(config.kube) ?? named.namespace)) return [];
  const readAll = async (kinds: readonly Kind[]): Promise<JobRow[]> => {
    const rows = await Promise.all(kinds.map((each) => readAtServer(deps, each, named, signal)));
    return rows.filter((row) => row !== undefined);
  };
  // A kind that the client names may have been installed since the last check.
  if (kind !== "") return readAll(KINDS.filter((each) => each.kind === kind));
  const likely = runtimes().filter(({ job }) => job(buildJobKey({ metadata: named })) !== undefined);
  const found = await readAll(likely.map((runtime) => runtime.kind));
  // Kinds that this process does not know yet may have jobs.
  if (found.length > 0) return found;
  const refused = new Set(deps.kindsRefused());
  const known = runtimes().map(({ kind: each }) => each);
  return readAll([...known, ...deps.kindsUnknown()].filter((each) => !refused.has(each)));
}

async function readAtServer(
  { calls, config }: AnswerDeps,
  kind: Kind,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  signal?: AbortSignal,
): Promise<JobRow | undefined> {
  const options = { timeoutMs: READ_TIMEOUT_MS, ...(signal !== undefined && { signal }) };
  const place = buildJobPlace(kind, { namespace });
  const resource = await unlessMissing(calls.get<JobResource>(place, name, options)).catch(throwAsFault);
  return resource && readJob(resource, kind, config.defaults);
}

async function waitForChange(
  { runtimes }: AnswerDeps,
  ownerChanges: EventEmitter,
  {
    job,
    ms,
    emptyWakes,
    signal,
  }: { readonly job: JobRow; readonly ms: number; readonly emptyWakes: number; readonly signal: AbortSignal },
): Promise<void> {
  const cached = runtimes()
    .find(({ kind }) => kind.kind === job.kind.kind)
    ?.job(buildJobKey(job));
  const isSame = cached?.metadata.uid === job.metadata.uid;
  // Either the change was published while the answer was in flight, or the API server was restored. After a restore its versions are lower than the cached one
  // until the cache lists again.
  if (isSame && parseVersion(cached) > parseVersion(job)) {
    await pause(emptyWakes === 0 ? 0 : Math.min(ms, computeBackoffMs(emptyWakes, AHEAD_PAUSES)), signal);
    return;
  }
  // The cache lacks a new job that it does not know yet, or a deleted job, whose deletion is published as well.
  const waitMs = isSame ? ms : Math.min(ms, UNKNOWN_WAIT_MS);
  await waitForOwnerChange(ownerChanges, buildOwnerId(job.metadata), waitMs, signal);
}

/** Explains a job, or work of Kubernetes whose owner id is the name. */
function explain(
  deps: AnswerDeps,
  { kind, name, namespace = "" }: JobKey,
  find: () => Promise<View>,
): ReturnType<typeof explainAnswer> {
  const calls = { ...deps.asking, podsLeft: () => Promise.resolve(listPodsLeft(deps)) };
  const batchKind = BATCH_KINDS.find((each) => each === kind);
  if (batchKind === undefined)
    return explainAnswer(calls, { kind, name, namespace: namespace || deps.config.kube.namespace }, find);
  if (deps.batchJobs === undefined) return throwFault({ code: "not_found", kind, id: name });
  return deps.batchJobs.explain(calls, { kind: batchKind, id: name, namespace });
}

function listPodsLeft({ machines, world, runtimes, kindsUnread }: AnswerDeps): LeftoverPod[] {
  const left = listLeftoverPods({ machines, world, runtimes: runtimes(), kindsUnread: kindsUnread() }).slice(
    0,
    MAX_PODS_LEFT,
  );
  return left.map(({ ownerId, job: name, namespace, pod, node }) => {
    return { owner: `${OWNER_KIND}/${ownerId}`, name, pod: `${namespace}/${pod}`, node };
  });
}

function rightsMissing({ queues, batchJobs }: Pick<AnswerDeps, "queues" | "batchJobs">): string[] {
  const ofBatch = batchJobs?.refused();
  return [
    ...(ofBatch === undefined ? [] : [ofBatch]),
    ...(queues.isRefused() ? ["queues.muster.dev, namespaces"] : []),
  ];
}

function buildOtherNamespaces({ elsewhere, config }: AnswerDeps): Partial<muster.job.v1.ListJobsReply.$Properties> {
  const unserved = elsewhere.unserved();
  return {
    jobsElsewhere: unserved
      .slice(0, MAX_JOBS_ELSEWHERE)
      .map(({ kind, namespace, name }) => ({ kind, namespace, name })),
    moreElsewhere: elsewhere.isCut() || unserved.length > MAX_JOBS_ELSEWHERE,
    elsewhereRefused: elsewhere.isRefused(),
    namespace: config.kube.namespace,
  };
}

function listUnreadKinds({ runtimes, kindsUnknown, kindsRefused, world }: AnswerDeps): string[] {
  const refused = new Set(kindsRefused());
  const unlisted = runtimes().filter(({ kind, jobs }) => !refused.has(kind) && !Number.isFinite(jobs.listAgeMs()));
  return [...kindsUnknown().map(jobsOfKind), ...unlisted.map(({ kind }) => jobsOfKind(kind)), ...world.unread()];
}

function jobsOfKind({ kind }: Kind): string {
  return `the jobs of kind ${kind}`;
}

async function tryCreate({ calls }: AnswerDeps, kind: Kind, manifest: JobManifest): Promise<void> {
  if ((await createJob(calls, { kind, resource: signed(manifest, ""), dryRun: true })) !== undefined) return;
  throwFault({ code: "already_exists", kind: kind.kind, id: manifest.metadata.name });
}

type Creation = {
  readonly kind: Kind;
  readonly resource: JobResource;
  /** The API server validates the job without storing it. */
  readonly dryRun?: boolean;
};

/** Returns undefined if an object of that name exists. */
async function createJob(
  calls: KubeCalls,
  { kind, resource, dryRun = false }: Creation,
): Promise<JobResource | undefined> {
  // The installed definition decides which fields exist; kubectl validates like this by default.
  const query = { fieldValidation: "Strict", ...(dryRun && { dryRun: "All" }) };
  try {
    return await calls.create<JobResource>(buildJobPlace(kind, resource.metadata), resource, { query });
  } catch (error) {
    const fault = toKubeFault(error);
    if (fault?.code === "already_exists") return undefined;
    // A creation reports not_found only for a missing kind or namespace.
    if (fault?.code !== "not_found" || fault.kind === "namespaces") return throwAsFault(error);
    const reason = `${kind.kind} is not installed in this cluster: it needs the CustomResourceDefinition ${kind.plural}.${kind.group}, such as deploy/crds/${kind.group}_${kind.plural}.yaml of Muster's repository`;
    return throwFault({ code: "invalid_request", field: "kind", reason }, { cause: error });
  }
}

/** Adds the id of the request and the trace. */
function signed({ apiVersion, kind, metadata, spec }: JobManifest, requestId: string): JobResource {
  const traceparent = getTraceparent();
  const written = metadata["annotations"];
  const all = {
    ...(typeof written === "object" ? written : {}),
    [annotations.requestId]: requestId,
    ...(traceparent !== "" && { [annotations.traceparent]: traceparent }),
  };
  // The API server sets the uid.
  return {
    apiVersion,
    kind,
    metadata: { ...metadata, annotations: all } as unknown as JobResource["metadata"],
    spec,
  };
}

async function readMemberLog(
  { logs, world, runtimes }: AnswerDeps,
  ownerChanges: EventEmitter,
  job: JobRow,
  request: muster.job.v1.GetJobLogsRequest,
  signal: AbortSignal,
): Promise<muster.job.v1.GetJobLogsReply.$Properties> {
  const { component, container } = request;
  const ownerId = buildOwnerId(job.metadata);
  const runtime = runtimes().find(({ kind }) => kind.kind === job.kind.kind);
  const deps = logs.of(
    { job, component, container, pods: () => world.pods.byIndex("owner", ownerId) },
    {
      isFinished: () => isFinished((runtime?.job(buildJobKey(job)) ?? job).status),
      changed: (ms, stop) => waitForOwnerChange(ownerChanges, ownerId, ms, stop),
    },
  );
  const { bytes, nextOffset, complete, run, pod } = await readLog(deps, request, signal);
  return { chunk: bytes, nextOffset, complete, truncated: false, run, pod };
}

/** Throws the fault behind an error of the API server; any other error is a defect, and is rethrown. */
function throwAsFault(error: unknown): never {
  throw new FaultError(requireKubeFault(error), { cause: error });
}
