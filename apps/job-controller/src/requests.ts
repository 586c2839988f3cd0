import { retryOnConflict } from "@muster/backoff";
import { fillPage } from "@muster/bus";
import { describeFault, findFault, throwFault, type Fault } from "@muster/faults";
import { matchesLabels, readLabelSelector } from "@muster/names";
import { isObject } from "@muster/resources";
import { findTooSmallPool } from "./domain/find-too-small-pool.ts";
import type { JobSpec } from "./domain/job.ts";
import type { Kind, KindDefaults, Problem, ReadResult } from "./domain/kind.ts";

/** A job; an empty kind stands for any kind with a job of that name. */
export type JobKey = {
  readonly kind: string;
  readonly name: string;
  /** Absent or empty for the namespace of the controller. */
  readonly namespace?: string;
};

/** A job and its view in replies. `revision` changes with the job. */
export type FoundJob<View> = {
  readonly key: JobKey;
  readonly revision: string;
  /** The number of members of the job, which is the cost of an answer. */
  readonly members: number;
  readonly view: View;
};

type ListedJob = { readonly key: JobKey; readonly labels: Readonly<Record<string, string>> };

type ListRequest = {
  readonly limit: number;
  readonly bytes: number;
  readonly after: string;
  /** Absent or empty for every served namespace. */
  readonly namespace?: string;
  /** As kubectl writes it; absent or empty: all. */
  readonly labelSelector?: string;
};

/** The dependencies of answering users. Every function that returns a promise rejects with FaultError. */
export type RequestDeps<View> = {
  readonly kinds: readonly Kind[];
  readonly defaults: KindDefaults;
  /** The namespace of the controller. */
  readonly namespace: string;
  /** Whether new jobs of the namespace run; undefined if it is not known yet. */
  readonly servesNamespace: (namespace: string) => boolean | undefined;
  /**
   * Reads all jobs of that name, of one kind or of all, from the API server, because a cache may lag behind an earlier answer. Omits jobs of other controllers.
   */
  readonly find: (key: Required<JobKey>, signal: AbortSignal) => Promise<readonly FoundJob<View>[]>;
  /** All jobs by their keys with namespaces, in any order, from a cache that may be slightly stale. */
  readonly listed: () => readonly ListedJob[];
  /** The caches that are not complete yet, such as `the jobs of kind TFJob`; empty once all are. */
  readonly unread: () => readonly string[];
  /** Returns the job from the same cache; undefined if it is no longer cached. */
  readonly seen: (key: JobKey) => FoundJob<View> | undefined;
  /** Encodes the job for a list. */
  readonly encode: (found: FoundJob<View>) => Uint8Array;
  /** Rejects with already_exists if another request created a job of that name and kind. */
  readonly create: (kind: Kind, manifest: JobManifest, requestId: string) => Promise<FoundJob<View>>;
  /** Validates the job at the API server; rejects as `create` does, and creates no job. */
  readonly tryCreate: (kind: Kind, manifest: JobManifest) => Promise<void>;
  /** Returns the maximum of machines of scaled pools; undefined if the ledger does not answer. */
  readonly maxima: () => Promise<ReadonlyMap<string, number> | undefined>;
  /** Returns why a new job would wait for its machines; undefined if it would get them. */
  readonly explainStart: (
    manifest: JobManifest,
    spec: JobSpec,
  ) => Promise<{ readonly code: string; readonly text: string } | undefined>;
  /** Whether the job is suspended, or its suspension was requested. */
  readonly isSuspended: (found: FoundJob<View>) => boolean;
  /** Whether a client has requested the end of the job, or the job has finished. */
  readonly isEnding: (found: FoundJob<View>) => boolean;
  /** Returns the foreign controller that runs the job; undefined if our controller runs it. */
  readonly managedBy: (found: FoundJob<View>) => string | undefined;
  /** Rejects with a conflict if the job has changed since it was found. */
  readonly markCancelled: (found: FoundJob<View>) => Promise<FoundJob<View>>;
  /** Rejects as `markCancelled` does. */
  readonly setSuspended: (found: FoundJob<View>, suspended: boolean) => Promise<FoundJob<View>>;
  /** Resolves when the job may have changed since it was found, after `ms`, or at the signal. `emptyWakes` counts consecutive wakes without a change. */
  readonly changed: (
    found: FoundJob<View>,
    wait: { readonly ms: number; readonly emptyWakes: number },
    signal: AbortSignal,
  ) => Promise<void>;
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly now: () => number;
};

export type JobManifest = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string; readonly [field: string]: unknown };
  readonly spec: unknown;
};

const MAX_LISTED = 500;
const MAX_WATCH_MS = 30_000;
/** A gang changes as often as it has members, and each answer shows all members. So a watcher of a larger gang gets fewer answers. */
const ANSWER_MS_PER_MEMBER = 1;
const MAX_ANSWER_PAUSE_MS = 500;
/** A cache is complete shortly after the start. */
const UNREAD_RETRY_MS = 250;
const MAX_REQUEST_ID_LENGTH = 128;
const POOLS_UNKNOWN = "the ledger does not answer: whether the pools may have so many machines was not checked";
/** The limit of a request to the bus, which is below the limit of etcd. */
const MAX_MANIFEST_BYTES = 512 * 1024;

/** Creates a job, or reports all problems of its manifest. The warnings name fields that do not have the written effect. */
export async function submitJob<View>(
  deps: RequestDeps<View>,
  { requestId, manifestJson }: { readonly requestId: string; readonly manifestJson: string },
): Promise<{ readonly found: FoundJob<View>; readonly warnings: readonly string[] }> {
  if (requestId === "" || requestId.length > MAX_REQUEST_ID_LENGTH) {
    refuse("request_id", `must have 1 to ${MAX_REQUEST_ID_LENGTH} characters`);
  }
  const { manifest, kind, read } = readSubmission(deps, manifestJson);
  if (!read.ok) return refuseProblems(read.problems);
  const found = await deps.create(kind, manifest, requestId);
  return { found, warnings: read.warnings.map(describeProblem) };
}

/**
 * Returns the problems that `submit` would report, without creating a job. Also reports a pool that can never provide the machines: a created job would wait,
 * because its pool may grow. A warning states why the job would wait for its machines. If the ledger does not answer, a warning states that the machines were
 * not checked. Rejects with FaultError if the rest cannot be checked now.
 */
export async function checkJob<View>(
  deps: RequestDeps<View>,
  manifestJson: string,
): Promise<{ readonly problems: readonly Problem[]; readonly warnings: readonly string[] }> {
  try {
    const { manifest, kind, read } = readSubmission(deps, manifestJson);
    if (!read.ok) return { problems: read.problems, warnings: [] };
    await deps.tryCreate(kind, manifest);
    const warnings = read.warnings.map(describeProblem);
    const maxima = await deps.maxima();
    if (maxima === undefined) return { problems: [], warnings: [...warnings, POOLS_UNKNOWN] };
    const tooSmall = findTooSmallPool(read.spec, maxima);
    if (tooSmall !== undefined) return { problems: [{ field: "spec", reason: describeFault(tooSmall) }], warnings: [] };
    return { problems: [], warnings: [...warnings, ...(await warnOfWait(deps, manifest, read.spec))] };
  } catch (error) {
    const fault = findFault(error);
    if (fault?.code === "invalid_request") return { problems: [fault], warnings: [] };
    if (fault?.code !== "already_exists") throw error;
    return { problems: [{ field: "metadata.name", reason: `${fault.kind} ${fault.id} exists already` }], warnings: [] };
  }
}

async function warnOfWait<View>(deps: RequestDeps<View>, manifest: JobManifest, spec: JobSpec): Promise<string[]> {
  try {
    const wait = await deps.explainStart(manifest, spec);
    return wait === undefined ? [] : [`it would wait: ${wait.code}: ${wait.text}`];
  } catch (error) {
    if (findFault(error) === undefined) throw error;
    return [POOLS_UNKNOWN];
  }
}

function describeProblem({ field, reason }: Problem): string {
  return `${field} ${reason}`;
}

function readSubmission<View>(
  deps: RequestDeps<View>,
  manifestJson: string,
): { readonly manifest: JobManifest; readonly kind: Kind; readonly read: ReadResult } {
  const manifest = readManifest(deps, manifestJson);
  const kind = deps.kinds.find(
    (each) => each.kind === manifest.kind && manifest.apiVersion === `${each.group}/${each.version}`,
  );
  if (kind === undefined) {
    const known = deps.kinds.map((each) => `${each.kind} of ${each.group}/${each.version}`).join(", ");
    return refuse("kind", `${manifest.kind} of ${manifest.apiVersion} is no kind of job; known are ${known}`);
  }
  return { manifest, kind, read: kind.read(manifest, deps.defaults) };
}

/**
 * Returns the one job of this name, at least as new as any earlier answer. Reads the API server, because the cache of this replica may be behind an answer of
 * another replica. Rejects with not_found if the job does not exist, and with invalid_request if several kinds have a job of this name.
 */
export async function getJob<View>(deps: RequestDeps<View>, key: JobKey, signal: AbortSignal): Promise<FoundJob<View>> {
  if (key.name === "") refuse("key.name", "is empty");
  const namespace = key.namespace || deps.namespace;
  if (key.kind !== "" && !deps.kinds.some(({ kind }) => kind === key.kind)) {
    refuse("key.kind", `"${key.kind}" is no kind of job; known are ${deps.kinds.map(({ kind }) => kind).join(", ")}`);
  }
  const found = await deps.find({ ...key, namespace }, signal);
  const [first, ...others] = found;
  if (first === undefined) {
    checkNamespace(deps, "key.namespace", namespace);
    return throwFault({ code: "not_found", kind: key.kind === "" ? "job" : key.kind, id: key.name });
  }
  if (others.length > 0) {
    const kinds = found.map(({ key: { kind } }) => kind).join(", ");
    return refuse("key.kind", `is needed: ${kinds} each have one called ${key.name}`);
  }
  return first;
}

/**
 * Answers as `get` does once the job differs from the revision, or the wait is over. After a first `get`, the wait continues while the cache has the caller's
 * revision, so that a waiting caller gets no stale answer.
 */
export async function watchJob<View>(
  deps: RequestDeps<View>,
  request: { readonly key: JobKey; readonly afterRevision: string; readonly waitMs: number },
  signal: AbortSignal,
): Promise<FoundJob<View>> {
  const { key, afterRevision } = request;
  const endMs = deps.now() + Math.min(request.waitMs, MAX_WATCH_MS);
  const restMs = (): number => (signal.aborted ? 0 : Math.max(0, endMs - deps.now()));
  if (afterRevision !== "") await deps.pause(Math.min(restMs(), computeAnswerPauseMs(deps.seen(key))), signal);
  for (let emptyWakes = 0; ; emptyWakes += 1) {
    const found = await getJob(deps, key, signal);
    if (found.revision !== afterRevision || restMs() === 0) return found;
    await deps.changed(found, { ms: restMs(), emptyWakes }, signal);
    for (let seen = deps.seen(key); seen?.revision === afterRevision && restMs() > 0; seen = deps.seen(key))
      await deps.changed(seen, { ms: restMs(), emptyWakes: 0 }, signal);
  }
}

/** Returns the pause between two answers to one watcher. */
export function computeAnswerPauseMs(job: Pick<FoundJob<unknown>, "members"> | undefined): number {
  return Math.min(MAX_ANSWER_PAUSE_MS, (job?.members ?? 0) * ANSWER_MS_PER_MEMBER);
}

/**
 * Lists jobs that match the selector in the order of their names and kinds, as many as fit into one reply. `next` is empty after the last page. Throws
 * unavailable until all caches are complete, because a partial list would look complete.
 */
export function listJobs<View>(
  deps: RequestDeps<View>,
  request: ListRequest,
): { readonly jobs: readonly FoundJob<View>[]; readonly next: string } {
  const { namespace = "" } = request;
  const within = deps.listed().filter(({ key }) => namespace === "" || key.namespace === namespace);
  // Jobs that have begun are listed after the last queue of their namespace is gone.
  if (namespace !== "" && within.length === 0) checkNamespace(deps, "namespace", namespace);
  const selector = readLabelSelector("labelSelector", request.labelSelector ?? "");
  refuseIncompleteCaches(deps.unread());
  const rest = within
    .filter(({ labels }) => matchesLabels(selector, labels))
    .map(({ key }) => ({ key, at: place(key) }))
    .filter(({ at }) => at > request.after)
    .sort((a, b) => (a.at < b.at ? -1 : 1));
  const { messages, last, isMore } = fillPage(rest, ({ key }) => deps.seen(key), {
    limit: Math.min(request.limit || MAX_LISTED, MAX_LISTED),
    bytes: request.bytes,
    encode: deps.encode,
  });
  return { jobs: messages, next: isMore && last !== undefined ? last.at : "" };
}

/**
 * Requests the end of a job. Does not write a finished or cancelled job. Rejects with invalid_request for a job of another controller, because that controller
 * does not read our annotation.
 */
export async function cancelJob<View>(
  deps: RequestDeps<View>,
  key: JobKey,
  signal: AbortSignal,
): Promise<FoundJob<View>> {
  return retryOnConflict(`${key.kind} ${key.name}`, async () => {
    const found = await getJob(deps, key, signal);
    if (deps.isEnding(found)) return { unchanged: found };
    const other = deps.managedBy(found);
    if (other !== undefined)
      return refuse("key.name", `names a job that is managed by ${other}, which alone can end it`);
    return { write: () => deps.markCancelled(found) };
  });
}

/**
 * Suspends or resumes a job. Does not write a job that is already in that state. Rejects with invalid_request for a job that is over or being cancelled, and
 * for a job of another controller.
 */
export async function suspendJob<View>(
  deps: RequestDeps<View>,
  { key, suspended }: { readonly key: JobKey; readonly suspended: boolean },
  signal: AbortSignal,
): Promise<FoundJob<View>> {
  return retryOnConflict(`${key.kind} ${key.name}`, async () => {
    const found = await getJob(deps, key, signal);
    const verb = suspended ? "suspend" : "resume";
    const other = deps.managedBy(found);
    if (other !== undefined)
      return refuse("key.name", `names a job that is managed by ${other}, which alone can ${verb} it`);
    if (deps.isEnding(found))
      return refuse(
        "key.name",
        `names a job that is over or being cancelled: only one that waits or runs can be ${suspended ? "suspended" : "resumed"}`,
      );
    if (deps.isSuspended(found) === suspended) return { unchanged: found };
    return { write: () => deps.setSuspended(found, suspended) };
  });
}

/** Throws unavailable while any cache is incomplete, so that the client retries. */
export function refuseIncompleteCaches(unread: readonly string[]): void {
  if (unread.length === 0) return;
  throwFault({
    code: "unavailable",
    dependency: `the list of ${unread.join(" and of ")}`,
    retryAfterMs: UNREAD_RETRY_MS,
  });
}

/** Throws invalid_request for a namespace without a queue, and unavailable before the queues are known. */
function checkNamespace<View>(
  { namespace: own, servesNamespace }: RequestDeps<View>,
  field: string,
  namespace: string,
): void {
  const isServed = servesNamespace(namespace);
  if (isServed === undefined) refuseIncompleteCaches(["the queues"]);
  if (isServed === true) return;
  const reason = `is not served: this job-controller runs the jobs of the namespace "${own}"`;
  refuse(
    field,
    `${JSON.stringify(namespace)} ${reason}, and with JOB_NAMESPACES=all of namespaces that a queue serves`,
  );
}

function place({ name, kind, namespace = "" }: JobKey): string {
  return `${name}/${kind}/${namespace}`;
}

function readManifest<View>(deps: RequestDeps<View>, text: string): JobManifest {
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_MANIFEST_BYTES) {
    return throwFault({
      code: "limit_exceeded",
      what: "size of the manifest in bytes",
      limit: MAX_MANIFEST_BYTES,
      retryAfterMs: 0,
    });
  }
  const value = parseObject(text);
  const { apiVersion, kind, metadata, spec } = value;
  if (typeof apiVersion !== "string") return refuse("apiVersion", "is missing");
  if (typeof kind !== "string") return refuse("kind", "is missing");
  if (!isObject(metadata) || typeof metadata["name"] !== "string") return refuse("metadata.name", "is missing");
  const namespace = metadata["namespace"] ?? deps.namespace;
  if (typeof namespace !== "string") return refuse("metadata.namespace", `must be a text, not ${typeof namespace}`);
  checkNamespace(deps, "metadata.namespace", namespace);
  if ("status" in value) return refuse("status", "is written by the controller alone");
  return { apiVersion, kind, metadata: { ...metadata, name: metadata["name"], namespace }, spec };
}

function parseObject(text: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    return throwFault({ code: "invalid_request", field: "manifest_json", reason: "is no JSON" }, { cause });
  }
  return isObject(value) ? value : refuse("manifest_json", "is no object");
}

/** A fault has one field; its reason contains the other fields. */
function refuseProblems([first, ...others]: readonly [Problem, ...Problem[]]): never {
  const rest = others.map(({ field, reason }) => `; ${field} ${reason}`).join("");
  return refuse(first.field, `${first.reason}${rest}`);
}

function refuse(field: string, reason: string): never {
  const fault: Fault = { code: "invalid_request", field, reason };
  return throwFault(fault);
}
