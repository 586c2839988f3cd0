import type { Cleanup, CleanupSchedule } from "../adapters/lease-messages.ts";
import { formatElapsed } from "@muster/faults";
import { buildTable, escapeControls, type Cell, type TableStyle } from "./build-table.ts";
import { formatCount } from "./plural.ts";

/** Returns a one-line summary; undefined if the engine reports no schedule. */
export function describeSchedule({ mode, nextScanMs }: CleanupSchedule, nowMs: number): string | undefined {
  const does = new Map([
    ["off", "off (PROVISION_CLEANUP): the engine neither searches nor removes anything automatically"],
    ["dry-run", "dry-run (PROVISION_CLEANUP): the engine only logs leftover objects, and releases machines"],
    ["on", "on (PROVISION_CLEANUP): at its next scan, the engine removes objects that are still left over"],
  ]).get(mode);
  if (does === undefined || nextScanMs === undefined) return does;
  return `${does}; its next scan is in ${formatElapsed(nextScanMs - nowMs)}`;
}

const LATER =
  "next: after PROVISION_CLEANUP_GRACE_MS (10 minutes), `muster lease cleanup` removes objects that are still left over";

/** Builds the stable format for `-o json` and `-o yaml`. */
export function buildCleanupRecord({ schedule: { mode, nextScanMs }, ...cleanup }: Cleanup): Record<string, unknown> {
  return { ...cleanup, mode, nextLookAt: nextScanMs === undefined ? undefined : new Date(nextScanMs).toISOString() };
}

export function buildCleanupView(
  cleanup: Cleanup,
  { dryRun, nowMs }: { readonly dryRun: boolean; readonly nowMs: number },
  style: TableStyle,
): string[] {
  const { steps, found, removed, suspected, heldBecause, schedule } = cleanup;
  const own = describeSchedule(schedule, nowMs);
  const rows = steps.map(({ action, kind, namespace, name, lease, because }): Cell[] => [
    action,
    kind,
    namespace === "" ? name : `${namespace}/${name}`,
    lease,
    because,
  ]);
  const more = removed + suspected - steps.length;
  return [
    ...(rows.length === 0 ? [] : buildTable(["ACTION", "KIND", "NAME", "LEASE", "WHY"], rows, style)),
    ...(more > 0 ? [`and ${more} more`] : []),
    `${formatCount(found, "object")} of leases: ${removed} ${dryRun ? "would be removed" : "removed"}, ${suspected} suspected to be left over`,
    ...(own === undefined ? [] : [`automatic clean-up is ${own}`]),
    ...(suspected > 0 && heldBecause === "" ? [LATER] : []),
    ...(heldBecause === "" ? [] : [`nothing is removed: ${escapeControls(heldBecause)}`]),
    ...(heldBecause === "" ? [] : [`next: if that is expected, \`muster lease cleanup --confirm ${suspected}\``]),
  ];
}
