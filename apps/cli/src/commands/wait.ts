import { unlessMissing } from "@muster/faults";
import { CommandError } from "../command-error.ts";
import { escapeControls } from "../domain/build-table.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { checkGoal, describeUnmetGoal, type WaitGoal } from "../domain/decide-wait.ts";
import type { ResourceRow, WaitOperations } from "../kinds/resource.ts";
import type { CommandLine } from "../kinds/resources.ts";
import { askResource, buildShortTarget } from "./find-work.ts";
import { followGoal } from "./follow.ts";
import { printForms, type Format } from "./output.ts";

export type WaitOptions = { readonly goal: WaitGoal; readonly timeoutMs: number; readonly output: Format };

/** `muster wait KIND/NAME --for GOAL`: waits until the item meets the goal or can no longer meet it, or until the timeout. */
export async function waitFor<Item extends object>(
  cli: CommandLine,
  resource: ResourceRow<Item> & { readonly waiting: WaitOperations<Item> },
  name: string,
  { goal, timeoutMs, output }: WaitOptions,
): Promise<ExitCode> {
  const { noun, waiting } = resource;
  const wrong = checkGoal(goal, { noun, conditions: waiting.conditions });
  if (wrong !== undefined) throw new CommandError(EXIT.usage, wrong.message, { hint: wrong.hint });
  await using connected = await cli.connect();
  const start: Item | undefined = await askResource(connected, resource, name, () => {
    const found = resource.get(connected, name);
    return goal.kind === "delete" ? unlessMissing(found) : found;
  });
  const met = [`${noun}/${start === undefined ? name : resource.nameOf(start)} condition met`];
  if (start === undefined) {
    await waiting.requireHistory?.(connected, name);
    // The other formats have no object to print.
    if (output === "table") cli.io.out(met);
    return EXIT.ok;
  }
  const next: Required<WaitOperations<Item>>["next"] = (within, seen, signal) =>
    waiting.next?.(within, seen, signal) ?? resource.get(within, name);
  const { last, verdict } = await followGoal(cli, connected, { ...waiting, next }, start, { goal, timeoutMs });
  if (verdict === "interrupted") return EXIT.interrupted;
  if (verdict === "met" && waiting.note !== undefined) cli.io.err(waiting.note(last));
  if (verdict === "met" || output !== "table")
    printForms(cli.io, output, { table: () => met, data: () => resource.record(last) });
  if (verdict === "met") return EXIT.ok;
  const about = { named: `${noun} ${resource.nameOf(start)}`, state: waiting.describe(last) };
  const target = buildShortTarget(cli, waiting.explained?.(last) ?? { kind: noun, name: resource.nameOf(last) });
  throw new CommandError(EXIT.failed, escapeControls(describeUnmetGoal(about, goal, verdict, timeoutMs)), {
    ...(verdict !== "deleted" && { hint: `\`muster explain ${target}\` shows why` }),
  });
}
