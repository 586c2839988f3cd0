import { findFault, throwFault, type Fault } from "@muster/faults";
import { buildSessionElsewhereId, checkDnsLabel, isSessionElsewhere, isSessionIn, SESSION } from "@muster/names";
import { MAIN_CONTAINER } from "@muster/session-limits";
import type { Bucket } from "@muster/store";
import { toWireExplanation, NO_ANSWERS, type MachineAnswers } from "@muster/ledger-client";
import { explainSession, getExplainedPhase } from "./domain/explain-session.ts";
import { explainReason } from "./domain/explain-wait.ts";
import { buildRecord, getGivenName, isFinished, isInQueue, type SessionRecord } from "./domain/session.ts";
import type { WaitReason } from "./domain/snapshot.ts";
import { transitionCancel, transitionTakeOver } from "./domain/transition-record.ts";
import { checkRequestId, validateSession, type SessionDefaults, type SessionDraft } from "./domain/validate-session.ts";
import { describeUnserved } from "./domain/describe-unserved.ts";
import type { SessionFollower } from "./followers.ts";
import type { StoredSession } from "./session-deps.ts";

/** Dependencies of user requests. All but `now`, `newUid`, `traceparent`, `executor`, `names` and `follow` reject with FaultError. */
export type RequestDeps = {
  readonly now: () => number;
  readonly newUid: () => string;
  readonly traceparent: () => string;
  /** This process as executor, while it leads. */
  readonly executor: () => Parameters<typeof transitionTakeOver>[1] | undefined;
  readonly load: (name: string) => Promise<StoredSession | undefined>;
  /** Rejects with already_exists if the name is taken. */
  readonly create: (record: SessionRecord) => Promise<number>;
  readonly modify: Bucket<SessionRecord>["modify"];
  /** Usage of all sessions, as far as this replica knows. */
  readonly occupancy: () => { readonly unfinished: number; readonly storedBytes: number };
  /**
   * Resolves to the ledger's current reason why the session waits, or would wait; undefined if it would not wait, or if the ledger is unavailable. Never
   * rejects because of the ledger.
   */
  readonly explain: (record: SessionRecord) => Promise<WaitReason | undefined>;
  /** Resolves to the reason why a new session would wait for machines; undefined if it would not. Rejects with the fault with which the session would end. */
  readonly checkMachines: (record: SessionRecord) => Promise<WaitReason | undefined>;
  /** Queries the ledger and the node-scaler about the session's machines. Never rejects with FaultError. */
  readonly askMachines: (record: SessionRecord) => Promise<MachineAnswers>;
  readonly announce: (record: SessionRecord, from: number) => Promise<void>;
  /** Counts a session that a request has finished. */
  readonly finished: (record: SessionRecord) => void;
  /** Deletes the stored logs and then the record. */
  readonly forget: (stored: StoredSession) => Promise<void>;
  /** Names of all sessions after this one, in order. */
  readonly namesAfter: (name: string) => readonly string[];
  /** Value of MUSTER_NAMESPACE. */
  readonly namespace: string;
  /** Returns whether new sessions of the namespace run; undefined while that is unknown. */
  readonly servesNamespace: (namespace: string) => boolean | undefined;
  readonly follow: (name: string) => SessionFollower;
  readonly keptLog: (name: LogName, range: LogRange) => Promise<LogPart>;
  readonly liveLog: (name: LogName, range: LogRange, signal: AbortSignal) => Promise<Uint8Array>;
  /** Returns the content at the offset, after waiting up to this time. */
  readonly followedLog: (name: LogName, range: LogRange, waitMs: number, signal: AbortSignal) => Promise<Uint8Array>;
  /** Size of a session in a reply, in bytes. */
  readonly sizeOf: (stored: StoredSession) => number;
};

type LogName = {
  readonly session: string;
  /** Absent: the session is in MUSTER_NAMESPACE. */
  readonly namespace?: string;
  readonly pod: string;
  readonly container: string;
};

/** Identifies a session for users. An empty or absent namespace is MUSTER_NAMESPACE. */
export type SessionKey = { readonly name: string; readonly namespace?: string };
type LogRange = { readonly offset: number; readonly limitBytes: number };

type LogPart = {
  readonly bytes: Uint8Array;
  readonly nextOffset: number;
  readonly complete: boolean;
  readonly truncated: boolean;
};

const MAX_LISTED = 500;
/** Retry time of a request before the namespaces are listed, shortly after the start. */
const UNLISTED_RETRY_MS = 250;
/** Maximum size of the sessions in one reply, which is one NATS message. */
const MAX_LIST_BYTES = 512 * 1024;
const MAX_CONCURRENT_LOADS = 32;
const MAX_WATCH_MS = 30_000;
const MAX_LOG_BYTES = 256 * 1024;
const MAX_LOG_WAIT_MS = 30_000;

export type SessionSubmission = SessionKey & { readonly requestId: string; readonly draft: SessionDraft };

export type SubmitLimits = {
  /** Maximum unfinished sessions. */
  readonly maxUnfinished: number;
  /** Maximum size of all sessions, including finished ones. */
  readonly maxStoredBytes: number;
};

type SubmitPolicy = {
  readonly defaults: SessionDefaults;
  readonly limits: SubmitLimits;
  /** Node label with the name of the pool. */
  readonly poolLabel: string;
};

/** Retry time after a refusal because of too many sessions. */
const FULL_RETRY_MS = 10_000;

/** Accepts a session, or throws its problem as a fault. An accepted session is stored and cannot be lost. A leader takes the session over in the same write. */
export async function submitSession(
  deps: RequestDeps,
  policy: SubmitPolicy,
  request: SessionSubmission,
): Promise<StoredSession> {
  const { requestId } = request;
  refuse(checkRequestId(requestId));
  checkNamespace(deps, request.namespace);
  const built = buildRecord({
    ...identify(deps, request),
    uid: deps.newUid(),
    requestId,
    spec: validSpec(request, policy),
    traceparent: deps.traceparent(),
    nowMs: deps.now(),
    waitingBecause: "the session controller has not taken it yet",
  });
  const executor = deps.executor();
  const record = executor === undefined ? built : transitionTakeOver(built, executor);
  const full = checkRoom(deps.occupancy(), policy.limits);
  try {
    if (full !== undefined && (await deps.load(record.name)) === undefined) throwFault(full);
    return { record, revision: await deps.create(record) };
  } catch (error) {
    if (findFault(error)?.code !== "already_exists") throw error;
    return repeated(deps, record, error);
  }
}

/**
 * Returns the session as `submitSession` would store it, with the reason why it would wait for machines. Rejects as `submitSession` would, or with the fault
 * with which the session would end without machines. Stores nothing.
 */
export async function checkSession(
  deps: RequestDeps,
  policy: SubmitPolicy,
  draft: Omit<SessionSubmission, "requestId">,
): Promise<ExplainedSession> {
  checkNamespace(deps, draft.namespace);
  const spec = validSpec(draft, policy);
  const identity = identify(deps, draft);
  const stored = await deps.load(identity.name);
  if (stored !== undefined) refuseName(draft.name, stored);
  refuse(checkRoom(deps.occupancy(), policy.limits));
  const unset = { uid: "", requestId: "", traceparent: "", waitingBecause: "" };
  const record = buildRecord({ ...unset, ...identity, spec, nowMs: deps.now() });
  return withReason({ record, revision: 0 }, await deps.checkMachines(record));
}

function validSpec(
  { name, draft }: Omit<SessionSubmission, "requestId">,
  { defaults, poolLabel }: SubmitPolicy,
): SessionRecord["spec"] {
  const validated = validateSession(name, draft, defaults, poolLabel);
  return validated.ok ? validated.spec : throwFault(validated.fault);
}

/** Refuses a session above the limits. Replicas count only sessions that they know, so concurrent submissions may exceed a limit by a few. */
function checkRoom(
  { unfinished, storedBytes }: ReturnType<RequestDeps["occupancy"]>,
  { maxUnfinished, maxStoredBytes }: SubmitLimits,
): Fault | undefined {
  const exceeded = { code: "limit_exceeded", retryAfterMs: FULL_RETRY_MS } as const;
  if (unfinished >= maxUnfinished) return { ...exceeded, what: "number of unfinished sessions", limit: maxUnfinished };
  if (storedBytes < maxStoredBytes) return undefined;
  return { ...exceeded, what: "size of all stored sessions in bytes", limit: maxStoredBytes };
}

/** Returns the session of the first request to a repeated request; refuses another request for that name. */
async function repeated(deps: RequestDeps, record: SessionRecord, cause: unknown): Promise<StoredSession> {
  const stored = await deps.load(record.name);
  return stored?.record.requestId === record.requestId ? stored : refuseName(getGivenName(record), stored, cause);
}

function refuseName(name: string, stored: StoredSession | undefined, cause?: unknown): never {
  const over = stored !== undefined && isFinished(stored.record);
  const doing = over ? "choose another name, or delete the finished session" : "choose another name";
  return throwFault({ code: "already_exists", kind: "session", id: name }, { cause, doing });
}

export async function getSession(deps: RequestDeps, key: SessionKey): Promise<StoredSession> {
  return (await deps.load(readKey(deps, key))) ?? throwMissing(deps, key);
}

/** Throws not_found for a missing session. Existing sessions are found even if no queue serves their namespace any more. */
function throwMissing(deps: RequestDeps, { name, namespace }: SessionKey): never {
  checkNamespace(deps, namespace);
  return throwFault({ code: "not_found", kind: "session", id: name });
}

/**
 * Adds the ledger's current wait reason to the session. A record does not contain the reason while it changes, or before an executor takes the session over.
 */
export async function addWaitReason(deps: RequestDeps, stored: StoredSession): Promise<ExplainedSession> {
  return withReason(stored, isInQueue(stored.record) ? await deps.explain(stored.record) : undefined);
}

type ExplainedSession = StoredSession & { readonly waitingCode?: WaitReason["code"] };

function withReason(stored: StoredSession, because: WaitReason | undefined): ExplainedSession {
  if (because === undefined) return stored;
  const { record, revision } = stored;
  return { record: { ...record, waitingBecause: explainReason(because) }, revision, waitingCode: because.code };
}

/** Explains the current phase of the session. */
export async function explainStoredSession(
  deps: RequestDeps,
  key: SessionKey,
): Promise<ReturnType<typeof toWireExplanation>> {
  const { name } = key;
  const { record, waitingCode = "" } = await addWaitReason(deps, await getSession(deps, key));
  const isOver = isFinished(record);
  const asked = isOver ? NO_ANSWERS : await deps.askMachines(record);
  const reason = explainSession(record, waitingCode, asked.seen);
  const sinceMs = record.events.at(-1)?.atMs ?? record.createdAtMs;
  return toWireExplanation({ kind: "session", name, phase: getExplainedPhase(record), sinceMs, isOver }, reason, asked);
}

/** Resolves once the session differs from the revision, or when the wait time is over. */
export async function watchSession(
  deps: RequestDeps,
  request: SessionKey & { readonly afterRevision: number; readonly waitMs: number },
  signal: AbortSignal,
): Promise<StoredSession> {
  using follower = deps.follow(readKey(deps, request));
  const endMs = deps.now() + Math.min(request.waitMs, MAX_WATCH_MS);
  for (;;) {
    const stored = await getSession(deps, request);
    const restMs = endMs - deps.now();
    if (stored.revision !== request.afterRevision || restMs <= 0 || signal.aborted) return stored;
    await follower.wait({ ms: restMs, knownRevision: stored.revision, signal });
  }
}

/** Lists sessions of one or all namespaces in the order of their keys, as many as fit into one reply. `next` is empty after the last page. */
export async function listSessions(
  deps: RequestDeps,
  request: {
    readonly limit: number;
    readonly after: string;
    readonly namespace?: string;
    readonly allNamespaces?: boolean;
  },
): Promise<{ readonly sessions: readonly StoredSession[]; readonly next: string }> {
  const limit = Math.min(request.limit || MAX_LISTED, MAX_LISTED);
  const names = deps
    .namesAfter(request.after)
    .filter((key) => request.allNamespaces === true || isIn(deps, key, request));
  // Existing sessions are listed even if no queue serves their namespace any more.
  if (names.length === 0 && request.allNamespaces !== true) checkNamespace(deps, request.namespace);
  const sessions: StoredSession[] = [];
  let bytes = 0;
  let seen = 0;
  while (seen < names.length && sessions.length < limit) {
    const batch = names.slice(seen, seen + Math.min(MAX_CONCURRENT_LOADS, limit - sessions.length));
    for (const stored of await Promise.all(batch.map((name) => deps.load(name)))) {
      if (stored !== undefined) bytes += deps.sizeOf(stored);
      if (bytes > MAX_LIST_BYTES && sessions.length > 0) return { sessions, next: names[seen - 1] ?? "" };
      if (stored !== undefined) sessions.push(stored);
      seen += 1;
    }
  }
  return { sessions, next: seen < names.length ? (names[seen - 1] ?? "") : "" };
}

/** Requests the end of a session; a finished one stays unchanged. */
export async function cancelSession(deps: RequestDeps, key: SessionKey): Promise<StoredSession> {
  const { kind, entry } = await deps.modify(readKey(deps, key), (record) => {
    if (record === undefined || isFinished(record) || record.cancelRequested) return { kind: "unchanged" };
    return { kind: "put", value: transitionCancel(record, deps.now()) };
  });
  if (entry === undefined) return throwMissing(deps, key);
  const { value: record, revision } = entry;
  if (kind === "put" && isFinished(record)) deps.finished(record);
  // Announce even without a change: an earlier attempt may have been stored without being announced.
  if (wasNeverRun(record)) await announceAll(deps, record);
  return { record, revision };
}

/** Deletes a finished session and its stored logs before its ttl. Refuses a session that still has pods or machines, because they are found by its record. */
export async function removeSession(
  deps: RequestDeps,
  { uid, ...key }: SessionKey & { readonly uid: string },
): Promise<StoredSession> {
  const { name } = key;
  const stored = await getSession(deps, key);
  const { record } = stored;
  if (uid !== "" && record.uid !== uid) return throwFault({ code: "not_found", kind: "session", id: name });
  const wrong = (reason: string): Fault => ({ code: "invalid_request", field: "name", reason });
  if (!isFinished(record)) return throwFault(wrong(`session ${name} is not finished; cancel it first`));
  if (!record.released || !record.podsDeleted)
    return throwFault(wrong(`session ${name} still has pods or machines; delete it once they are released`));
  await deps.forget(stored);
  return stored;
}

/** Returns whether the session finished before any executor took it. */
function wasNeverRun(record: SessionRecord): boolean {
  return isFinished(record) && record.epoch === 0;
}

/** Announces all events of a session that never had an executor; otherwise its executor announces them. */
function announceAll(deps: RequestDeps, record: SessionRecord): Promise<void> {
  return deps.announce(record, 0);
}

type LogRequest = SessionKey & {
  readonly component: string;
  readonly container: string;
  readonly offset: number;
  readonly limitBytes: number;
  /** Maximum wait for content; 0: return the present content immediately. */
  readonly waitMs: number;
};

/** Reads a component's log from an offset: the stored log if the pod's logs are stored, otherwise the container's own log. */
export async function readSessionLog(deps: RequestDeps, request: LogRequest, signal: AbortSignal): Promise<LogPart> {
  const { record } = await getSession(deps, request);
  const component = record.components.find(({ name }) => name === request.component);
  if (component === undefined) return throwFault({ code: "not_found", kind: "component", id: request.component });
  const container = request.container === "" ? MAIN_CONTAINER : checkedName(request.container, "container");
  const { elsewhere } = record;
  const within = elsewhere === undefined ? {} : { namespace: elsewhere.namespace };
  const log = { session: record.name, ...within, pod: component.pod, container };
  const range = { offset: request.offset, limitBytes: Math.min(request.limitBytes || MAX_LOG_BYTES, MAX_LOG_BYTES) };
  if (!Number.isSafeInteger(range.offset) || range.offset < 0) {
    return throwFault({ code: "invalid_request", field: "offset", reason: `${range.offset} is not an offset` });
  }
  if (record.logsCollected || record.logsRead.includes(component.pod)) return deps.keptLog(log, range);
  const over = isFinished(record);
  const waitMs = over ? 0 : Math.min(request.waitMs, MAX_LOG_WAIT_MS);
  const bytes = component.podUid === "" ? new Uint8Array() : await liveLog(deps, { log, range, waitMs }, signal);
  return { bytes, nextOffset: range.offset + bytes.length, complete: over, truncated: false };
}

/** Reads the container's log. A container that has not started, or a missing pod, has an empty log for now. */
async function liveLog(
  deps: RequestDeps,
  { log, range, waitMs }: { readonly log: LogName; readonly range: LogRange; readonly waitMs: number },
  signal: AbortSignal,
): Promise<Uint8Array> {
  try {
    if (waitMs > 0) return await deps.followedLog(log, range, waitMs, signal);
    return await deps.liveLog(log, range, signal);
  } catch (error) {
    const code = findFault(error)?.code;
    if (code === "invalid_request" || code === "not_found") return new Uint8Array();
    throw error;
  }
}

/** Returns the key of the record, and `elsewhere` for a session of another namespace. */
function identify(
  { namespace: own }: RequestDeps,
  { name, namespace = "" }: SessionKey,
): Pick<SessionRecord, "name" | "elsewhere"> {
  if (namespace === "" || namespace === own) return { name };
  const elsewhere = { namespace, name };
  return { name: buildSessionElsewhereId(elsewhere), elsewhere };
}

/** Returns the key of the record. A session of MUSTER_NAMESPACE never has the key of a session in another namespace. */
function readKey(deps: RequestDeps, key: SessionKey): string {
  const { name, elsewhere } = identify(deps, { ...key, name: checkedName(key.name) });
  return elsewhere === undefined && isSessionElsewhere({ kind: SESSION, id: name }) ? throwMissing(deps, key) : name;
}

function isIn({ namespace: own }: RequestDeps, id: string, { namespace = "" }: Pick<SessionKey, "namespace">): boolean {
  const owner = { kind: SESSION, id };
  return namespace === "" || namespace === own ? !isSessionElsewhere(owner) : isSessionIn(owner, namespace);
}

/** Throws invalid_request for a namespace whose sessions do not run, and unavailable before the namespaces are known. */
function checkNamespace({ namespace: own, servesNamespace }: RequestDeps, namespace = ""): void {
  const isServed = namespace === "" || servesNamespace(namespace);
  if (isServed === undefined)
    throwFault({ code: "unavailable", dependency: "the list of the namespaces", retryAfterMs: UNLISTED_RETRY_MS });
  if (isServed) return;
  refuse({ code: "invalid_request", field: "namespace", reason: describeUnserved(namespace, own) });
}

/** Returns the name, which becomes a key; throws a fault for an invalid name, which cannot exist. */
function checkedName(name: string, field = "name"): string {
  refuse(checkDnsLabel(field, name));
  return name;
}

function refuse(fault: Fault | undefined): void {
  if (fault !== undefined) throwFault(fault);
}
