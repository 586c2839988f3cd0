import type { CleanupState, EngineLoad, Lease, UnreadableLease } from "../adapters/lease-messages.ts";
import { describeSchedule } from "./build-cleanup-view.ts";
import { describeUsers } from "./build-lease-views.ts";
import { escapeControls } from "./build-table.ts";
import { listFailedRecords, buildPassedCheck, buildWarningCheck, type Check, type ObservedValue } from "./check.ts";
import { listSome } from "./list-some.ts";
import { formatCount } from "./plural.ts";

/** The observed state of an engine and its leases. */
export type SeenEngine = {
  readonly engine: string;
  readonly load: ObservedValue<EngineLoad>;
  /** Ordered leases that are not active yet. */
  readonly waiting: readonly Pick<Lease, "waitingBecause">[];
  /** Leases that are over, and not yet decommissioned. */
  readonly ending: readonly Pick<Lease, "order" | "waitingBecause" | "isStuck" | "usedBy">[];
  /** Why the leases cannot be listed; empty if the list is complete. */
  readonly unlisted: string;
  /** Only the leader of an engine answers this call. */
  readonly cleanup: ObservedValue<CleanupState>;
};

/** The maximum number of leases in a message. */
const MAX_SHOWN = 3;
const GIB = 1024 ** 3;
const NAME = "leases";
const SILENT = "its replicas are connected, and do not answer: see the log of the engine";
const UNLISTED = "leases that cannot be taken down may be missing here: `muster lease get` shows them";
const CLEANUP = "clean-up of leases";
const WAITS =
  "no leftover is removed until the controller has listed all of its orders: check the polls in the log of the engine";
const CONFIRM =
  "check whether records of leases are lost: nothing is removed meanwhile; `muster lease cleanup --dry-run` lists the objects, and --confirm N removes up to N";

/** If no engine answers, the check of the services reports it. */
export function buildLeaseChecks(seen: ObservedValue<readonly SeenEngine[]>, nowMs: number): Check[] {
  if ("trouble" in seen) return [];
  const [, second] = seen.value;
  return seen.value.flatMap((each) => {
    const checks = checkEngine(each, nowMs);
    return second === undefined ? checks : checks.map((one) => ({ ...one, check: `${one.check} (${each.engine})` }));
  });
}

function checkEngine({ engine, load: seen, waiting, ending, unlisted, cleanup }: SeenEngine, nowMs: number): Check[] {
  const held = "trouble" in cleanup ? [] : buildCleanupChecks(cleanup.value, nowMs);
  if ("trouble" in seen)
    return [buildWarningCheck(NAME, `engine ${engine}: ${escapeControls(seen.trouble)}`, SILENT), ...held];
  const load = seen.value;
  const stuck = ending.filter(({ isStuck }) => isStuck);
  const wait = waiting.length === 0 ? [] : [`${waiting.length} not active yet`];
  const counted = [`engine ${load.engine}: ${load.active} active`, ...wait, ...describeUse(load)].join(", ");
  const detail = [counted, ...describeInUse(ending, nowMs)].join("; ");
  const more = [...buildUnqueued(engine, waiting), ...buildOverdue(load), ...buildUnopened(load)];
  if (unlisted !== "")
    return [
      buildWarningCheck(NAME, `${detail}; cannot be listed: ${escapeControls(unlisted)}`, UNLISTED),
      ...more,
      ...held,
    ];
  if (stuck.length === 0) return [buildPassedCheck(NAME, detail), ...more, ...held];
  const lines = stuck.map(({ order, waitingBecause }) => `${order.id}: ${escapeControls(waitingBecause)}`);
  return [
    buildWarningCheck(
      NAME,
      `${detail}; ${formatCount(stuck.length, "lease")} cannot be taken down: ${listSome(lines, MAX_SHOWN, ";")}`,
      "their objects stay until that is fixed, and are then taken down automatically",
    ),
    ...more,
    ...held,
  ];
}

/** Explains a lease that ends only after other leases, which is no problem. */
function describeInUse(ending: SeenEngine["ending"], nowMs: number): string[] {
  const inUse = ending.filter(({ isStuck, usedBy }) => !isStuck && usedBy.count > 0);
  const lines = inUse.slice(0, MAX_SHOWN).map(({ order, usedBy }) => {
    const users = describeUsers(usedBy, nowMs);
    return `${order.type} ${order.id} ends after ${users}`;
  });
  const more = inUse.length - lines.length;
  return more > 0 ? [...lines, `${more} more wait for others to end`] : lines;
}

function buildCleanupChecks({ heldBecause, waitsFor, schedule }: CleanupState, nowMs: number): Check[] {
  if (heldBecause !== "") return [buildWarningCheck(CLEANUP, escapeControls(heldBecause), CONFIRM)];
  const own = describeSchedule(schedule, nowMs);
  if (waitsFor === "") return own === undefined ? [] : [buildPassedCheck(CLEANUP, own)];
  return [buildWarningCheck(CLEANUP, `it has not begun: ${escapeControls(waitsFor)} is not completely known`, WAITS)];
}

/** Reports leases of machines that wait because of their engine's setting, which their text names. */
function buildUnqueued(engine: string, waiting: SeenEngine["waiting"]): Check[] {
  const unqueued = waiting.filter(({ waitingBecause }) => waitingBecause.includes("PROVISION_QUEUE"));
  const [first] = unqueued;
  if (first === undefined) return [];
  const detail = `engine ${engine}: ${formatCount(unqueued.length, "lease")} without a queue: ${escapeControls(first.waitingBecause)}`;
  const next =
    "name a queue without queues below it in PROVISION_QUEUE of the provision-engine; `muster queues` lists them";
  return [buildWarningCheck("queue of leases", detail, next)];
}

function buildOverdue({ engine, overdue }: EngineLoad): Check[] {
  if (overdue === 0) return [];
  const detail = `engine ${engine}: ${formatCount(overdue, "lease")} still exist minutes after their end`;
  return [buildWarningCheck("ends of leases", detail, "the log of the engine shows why; they end once that is fixed")];
}

function buildUnopened({ engine, unopened }: EngineLoad): Check[] {
  if (unopened === 0) return [];
  const detail = `engine ${engine}: secrets of ${formatCount(unopened, "lease")}, or more, cannot be decrypted with its present key`;
  return [
    buildWarningCheck(
      "key of leases",
      detail,
      "after a restore, restore its key too; until then, recreated workloads of these leases fail",
    ),
  ];
}

/** If no engine answers, the check of the services reports it. */
export function buildUnreadableLeaseChecks(seen: ObservedValue<readonly UnreadableLease[]>): Check[] {
  if ("trouble" in seen) return [];
  return listFailedRecords(
    "leases",
    seen.value.map(({ id, because }) => [id, because]),
    "these leases are in no list and do not end: run the version of the provision engine that wrote them, or a later one",
  );
}

function describeUse({ used, capacity }: EngineLoad): string[] {
  if (capacity === undefined) return [];
  const texts: readonly (readonly [name: string, used: number, of: number | undefined, unit: number])[] = [
    ["processors", used.cru, capacity.cru, 1],
    ["GiB memory", used.mruBytes, capacity.mruBytes, GIB],
    ["GiB ssd", used.sruBytes, capacity.sruBytes, GIB],
    ["GiB hdd", used.hruBytes, capacity.hruBytes, GIB],
  ];
  return texts.flatMap(([name, is, of, unit]) =>
    of === undefined ? [] : `${round(is / unit)} of ${round(of / unit)} ${name}`,
  );
}

function round(value: number): string {
  return String(Math.round(value * 10) / 10);
}
