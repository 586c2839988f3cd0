import type { FarmCalls } from "../adapters/farm-calls.ts";
import type { Cli } from "../cli.ts";
import { buildRecord } from "../domain/build-record.ts";
import { buildAuditTable, describeCounts, describeMove, setRecord } from "../domain/build-set-views.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { SET_NOUN } from "../domain/replica-set.ts";
import type { ReplicaSet } from "../adapters/farm-messages.ts";
import { askOfSet } from "../kinds/farm-refusals.ts";
import { printLine, printList, type Format } from "./output.ts";

type Changed = { readonly name: string; readonly output: Format };

/** Requests one change, and prints its outcome. */
async function changeSet(
  cli: Cli,
  { name, output }: Changed,
  change: (farms: FarmCalls) => Promise<ReplicaSet>,
  describe: (set: ReplicaSet) => string,
): Promise<ExitCode> {
  await using connected = await cli.connect();
  const set = await askOfSet(connected, name, change);
  printLine(cli.io, output, `${SET_NOUN}/${name} ${describe(set)}`, () => setRecord(set));
  return EXIT.ok;
}

/** `muster scale NAME --replicas N` */
export function scaleSet(
  cli: Cli,
  { replicas, expected, ...changed }: Changed & { readonly replicas: number; readonly expected: number | undefined },
): Promise<ExitCode> {
  const ask = (farms: FarmCalls): Promise<ReplicaSet> => farms.scale(changed.name, replicas, expected);
  return changeSet(cli, changed, ask, (set) => `scaled: ${describeCounts(set)}`);
}

/** `muster enable NAME` and `muster disable NAME` */
export function enableSet(
  cli: Cli,
  { enabled, ...changed }: Changed & { readonly enabled: boolean },
): Promise<ExitCode> {
  const ask = (farms: FarmCalls): Promise<ReplicaSet> => farms.enable(changed.name, enabled);
  return changeSet(cli, changed, ask, (set) =>
    enabled ? `enabled: ${describeCounts(set)}` : `disabled: its ${set.replicas.length} pods stay as they are`,
  );
}

/** `muster transfer NAME --from NODE` */
export function transferSet(
  cli: Cli,
  { from, to, ...changed }: Changed & { readonly from: string; readonly to: string },
): Promise<ExitCode> {
  const ask = (farms: FarmCalls): Promise<ReplicaSet> => farms.transfer(changed.name, from, to);
  return changeSet(cli, changed, ask, ({ name, transfer }) =>
    transfer === undefined
      ? `has left ${from}`
      : `${describeMove(transfer)}; \`muster wait ${SET_NOUN}/${name} --for=condition=Transferring=false\` waits for the end`,
  );
}

/** `muster transfer NAME --hold` and `--release` */
export function holdSet(
  cli: Cli,
  { hold, ...changed }: Changed & { readonly hold: { readonly by: string; readonly because: string } | undefined },
): Promise<ExitCode> {
  const ask = (farms: FarmCalls): Promise<ReplicaSet> => farms.hold(changed.name, hold);
  return changeSet(cli, changed, ask, ({ name, transfer }) => {
    if (hold === undefined) return "may leave nodes again";
    const open = transfer === undefined ? "" : "; the transfer that is under way continues";
    return `leaves no node until \`muster transfer ${name} --release\`${open}`;
  });
}

/** `muster audit NAME` */
export async function auditSet(
  cli: Cli,
  { name, limit, output }: Changed & { readonly limit: number },
): Promise<ExitCode> {
  await using connected = await cli.connect();
  const audits = await askOfSet(connected, name, (farms) => farms.audit(name, limit));
  if (audits.length === 0) {
    // The audit of a deleted set remains, so a name without one may be misspelt.
    await askOfSet(connected, name, (farms) => farms.get(name));
  }
  printList(cli.io, output, audits, {
    none: `${name} has no audit yet`,
    table: (style) => buildAuditTable(audits, style),
    record: ({ details, ...audit }) => ({ ...buildRecord(audit), details }),
  });
  return EXIT.ok;
}
