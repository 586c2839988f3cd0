import { FaultError } from "@muster/faults";

const QUICK = "--quick";

/** Passes `--quick` on to the processes of a benchmark. */
export function forwardQuickFlag(args: readonly string[] = process.argv): readonly string[] {
  return args.includes(QUICK) ? [QUICK] : [];
}

/** The size of a benchmark; `--quick` selects one that takes seconds, which tests that the benchmark works. */
export function selectSize<Size>(full: Size, quick: Size, args?: readonly string[]): Size {
  return forwardQuickFlag(args).length > 0 ? quick : full;
}

/**
 * Runs the parts of a benchmark that the command line names, one after the other; all of them where it names none. Rejects for an unknown argument before any
 * of them.
 */
export async function runBenches(
  parts: Readonly<Record<string, () => unknown>>,
  args: readonly string[] = process.argv.slice(2),
): Promise<void> {
  const chosen = args.filter((arg) => arg !== QUICK);
  const unknown = chosen.find((name) => !(name in parts));
  if (unknown !== undefined) {
    const reason = `${unknown} is unknown; ${Object.keys(parts).join(", ")} and ${QUICK} are possible`;
    throw new FaultError({ code: "invalid_request", field: "argument", reason });
  }
  for (const [name, run] of Object.entries(parts)) {
    if (chosen.length > 0 && !chosen.includes(name)) continue;
    process.stdout.write(`== ${name}\n`);
    await run();
  }
}
