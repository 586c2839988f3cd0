import type { Cli } from "../cli.ts";
import { buildCleanupRecord, buildCleanupView } from "../domain/build-cleanup-view.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { askOfLeases } from "../kinds/lease-refusals.ts";
import { print, type Format } from "./output.ts";

type CleanupOptions = {
  readonly engine: string;
  readonly dryRun: boolean;
  readonly confirm: number;
  readonly output: Format;
};

/** `muster lease cleanup`: ends with 1 where the removal waits for `--confirm`. */
export async function cleanUpLeases(cli: Cli, { engine, dryRun, confirm, output }: CleanupOptions): Promise<ExitCode> {
  await using connected = await cli.connect();
  const cleanup = await askOfLeases(connected, (leases) => leases.cleanUp(engine, dryRun, confirm));
  print(cli.io, output, {
    table: (style) => buildCleanupView(cleanup, { dryRun, nowMs: cli.now() }, style),
    data: () => buildCleanupRecord(cleanup),
  });
  return cleanup.heldBecause === "" ? EXIT.ok : EXIT.failed;
}
