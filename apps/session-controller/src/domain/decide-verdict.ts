import { describeFault, formatDuration } from "@muster/faults";
import {
  findEvent,
  isReplacing,
  computeQueuedUntilMs,
  type ComponentStatus,
  type EndReason,
  type SessionRecord,
  type SessionVerdict,
} from "./session.ts";
import type { LedgerRefusal, ReservationSeen, SessionPolicy, Snapshot } from "./snapshot.ts";

/**
 * Returns the outcome of a session once it is decided. Several events have a fixed precedence, so that all replicas decide the same: the driver's success, the
 * cancellation, failures (driver first, then declared order), permanent obstacles, and time last.
 */
export function decideVerdict(
  snapshot: Snapshot,
  components: readonly ComponentStatus[],
  policy: Pick<SessionPolicy, "replacementWaitMs">,
): SessionVerdict | undefined {
  const { record, nowMs } = snapshot;
  const driver = components.find(({ kind }) => kind === "driver");
  if (driver?.state === "SUCCEEDED") return outcome("DONE", nowMs, "", "the driver ended with exit code 0");
  if (record.cancelRequested) return outcome("CANCELLED", nowMs, "", "cancelled on request");
  return (
    decideComponentFailure(components, nowMs) ??
    decideObstacle(snapshot) ??
    decideReplacement(snapshot, components, policy) ??
    (findEvent(record, "ACCEPT") === undefined ? decideQueue(snapshot) : decideTimeout(snapshot, components))
  );
}

function decideComponentFailure(components: readonly ComponentStatus[], nowMs: number): SessionVerdict | undefined {
  const failed = components.filter(({ state }) => state === "FAILED");
  const named = failed.find(({ kind }) => kind === "driver") ?? failed[0];
  if (named === undefined) return undefined;
  const exit = named.exitCode === undefined ? "" : ` with exit code ${named.exitCode}`;
  const message = named.message === "" ? "" : `: ${named.message}`;
  const who = named.kind === named.name ? named.name : `${named.kind} ${named.name}`;
  return outcome("ERROR", nowMs, "COMPONENT_FAILED", `${who} failed${exit}${message}`);
}

function decideObstacle({ obstacles, nowMs }: Snapshot): SessionVerdict | undefined {
  const refused = obstacles
    .filter((obstacle) => obstacle.kind === "refused")
    .sort((a, b) => (a.component < b.component ? -1 : 1))[0];
  if (refused === undefined) return undefined;
  return outcome("ERROR", nowMs, refused.reason, `${refused.component}: ${refused.message}`);
}

/** Ends the session if a component lost its machine before it started and no replacement exists or becomes free in time. */
function decideReplacement(
  { replacements, nowMs, trouble }: Snapshot,
  components: readonly ComponentStatus[],
  { replacementWaitMs }: Pick<SessionPolicy, "replacementWaitMs">,
): SessionVerdict | undefined {
  for (const { name, message, lostAtMs, pool } of components.filter(isReplacing)) {
    const replacement = replacements.get(name);
    if (replacement?.state === "refused" && (!mayChange(replacement) || nowMs - lostAtMs >= replacementWaitMs)) {
      const { fault, text = describeFault(fault) } = replacement;
      return outcome("ERROR", nowMs, "MACHINE_LOST", `${name} ${message}; ${text}`);
    }
    if (nowMs - lostAtMs < replacementWaitMs) continue;
    const text = `${name} ${message}; no machine of pool ${pool} was granted within ${formatDuration(replacementWaitMs)}`;
    if (trouble !== undefined) return outcome("INTERNAL_ERROR", nowMs, "", `${text}; ${trouble}`);
    return outcome("ERROR", nowMs, "MACHINE_LOST", text);
  }
  return undefined;
}

/** Returns whether the refusal may be temporary: the pool is too small without its cordoned or tainted nodes. */
export function mayChange({ fault }: Extract<ReservationSeen, { readonly state: "refused" }>): boolean {
  return fault.code === "pool_capacity" && (fault.cordoned ?? fault.taints) !== undefined;
}

const REFUSED: Readonly<Record<LedgerRefusal["code"], EndReason>> = {
  pool_unknown: "POOL_UNKNOWN",
  pool_capacity: "POOL_CAPACITY",
  reservation_differs: "RESERVATION_DIFFERS",
  invalid_request: "INVALID_REQUEST",
  limit_exceeded: "INVALID_REQUEST",
};

function decideQueue({ record, reservation, nowMs, trouble }: Snapshot): SessionVerdict | undefined {
  if (reservation.state === "refused") {
    const { fault, text = describeFault(fault) } = reservation;
    return outcome("ERROR", nowMs, REFUSED[fault.code], text);
  }
  if (reservation.state === "granted") return decideGrant(record.components, reservation.machines, nowMs);
  if (nowMs < computeQueuedUntilMs(record)) return undefined;
  // The grant's event may be lost, so the ledger is queried once more.
  if (reservation.state === "unknown" && trouble === undefined) return undefined;
  const text = `no machines within ${formatDuration(record.spec.queueTimeoutMs)}`;
  if (trouble !== undefined) return outcome("INTERNAL_ERROR", nowMs, "", `${text}; ${trouble}`);
  const waiting = record.waitingBecause === "" ? "" : `; ${record.waitingBecause}`;
  return outcome("ERROR", nowMs, "QUEUE_TIMEOUT", `${text}${waiting}`);
}

/** Ends the session if the grant has no machine for a component. This is a defect of the ledger, and an unassigned pod could run on another owner's machine. */
function decideGrant(
  components: readonly ComponentStatus[],
  machines: readonly { readonly component: string; readonly node: string }[],
  nowMs: number,
): SessionVerdict | undefined {
  const without = components.find(
    ({ name }) => !machines.some(({ component, node }) => component === name && node !== ""),
  );
  if (without === undefined) return undefined;
  return outcome("INTERNAL_ERROR", nowMs, "", `the ledger granted no machine for ${without.name}`);
}

/** True once the time for provisioning and running has passed. A timeout is decided from missing events, so it requires a list of the pods first. */
export function isTimeOver(record: SessionRecord, nowMs: number): boolean {
  const provision = findEvent(record, "PROVISION");
  const { timeoutMs } = record.spec;
  return provision !== undefined && timeoutMs > 0 && nowMs - provision.atMs >= timeoutMs;
}

function decideTimeout(
  { record, nowMs, trouble, livePods }: Snapshot,
  components: readonly ComponentStatus[],
): SessionVerdict | undefined {
  if (!isTimeOver(record, nowMs)) return undefined;
  const { timeoutMs } = record.spec;
  const hasRun = findEvent(record, "RUN") !== undefined;
  const missing = components.filter(({ state }) => state !== "READY" && state !== "SUCCEEDED");
  const text = hasRun
    ? `the driver did not end within ${formatDuration(timeoutMs)}`
    : `not all components were ready within ${formatDuration(timeoutMs)}: ${describeStates(missing)}`;
  if (livePods === undefined) {
    return outcome("INTERNAL_ERROR", nowMs, "", `${text}; ${trouble ?? "its pods were not listed"}`);
  }
  if (!hasRun && trouble !== undefined) return outcome("INTERNAL_ERROR", nowMs, "", `${text}; ${trouble}`);
  return outcome("ERROR", nowMs, "TIMEOUT", text);
}

const MAX_NAMED = 5;
/** Maximum length of a stored description: messages of other services may have any length. */
const DESCRIPTION_LENGTH = 1024;

/** Lists states such as "server-0 is NOT_READY (ImagePullBackOff), client-0 is PENDING", the first few by name and the rest as a number. */
export function describeStates(components: readonly ComponentStatus[]): string {
  const named = components.slice(0, MAX_NAMED).map(({ name, state, message }) => {
    return `${name} is ${state}${message === "" ? "" : ` (${message})`}`;
  });
  const rest = components.length - named.length;
  return rest > 0 ? `${named.join(", ")} and ${rest} more` : named.join(", ");
}

function outcome(
  kind: SessionVerdict["kind"],
  atMs: number,
  reason: SessionVerdict["reason"],
  description: string,
): SessionVerdict {
  const text =
    description.length > DESCRIPTION_LENGTH ? `${description.slice(0, DESCRIPTION_LENGTH - 3)}...` : description;
  return { kind, atMs, reason, description: text };
}
