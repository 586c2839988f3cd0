import { buildTable, plain, type Cell, type TableStyle } from "./build-table.ts";
import { plural } from "./plural.ts";

/** What came of one look for what leases have left behind. */
export type Cleanup = {
  /** Not all of them where there are very many. */
  readonly steps: readonly {
    /** SUSPECTED or REMOVED. */
    readonly action: string;
    readonly kind: string;
    /** Empty: it lives in none. */
    readonly namespace: string;
    readonly name: string;
    readonly lease: string;
    readonly because: string;
  }[];
  readonly found: number;
  readonly removed: number;
  readonly suspected: number;
  /** Why nothing is removed until somebody confirms it; empty: nothing is held up. */
  readonly heldBecause: string;
};

const LATER =
  "next: what still looks left over after PROVISION_CLEANUP_GRACE_MS (10 minutes) is removed by `muster lease cleanup`; the engine does so by itself only where PROVISION_CLEANUP is on";

export function buildCleanupView(cleanup: Cleanup, dryRun: boolean, style: TableStyle): string[] {
  const { steps, found, removed, suspected, heldBecause } = cleanup;
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
    `${plural(found, "object")} of leases: ${removed} ${dryRun ? "would be removed" : "removed"}, ${suspected} suspected to be left over`,
    ...(suspected > 0 && heldBecause === "" ? [LATER] : []),
    ...(heldBecause === "" ? [] : [`nothing is removed: ${plain(heldBecause)}`]),
    ...(heldBecause === "" ? [] : [`next: if that is right, \`muster lease cleanup --confirm ${suspected}\``]),
  ];
}
