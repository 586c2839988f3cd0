import type { Cli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { isLeaseWord } from "../domain/lease-document.ts";
import { describeUnknownTarget, findTarget, type Target } from "../kinds/kinds.ts";

/** What `NAME`, `KIND/NAME` or the plural of a kind means. Throws CommandError for a kind that does not exist. */
export function targetOf(cli: Cli, text: string): Target {
  const target = findTarget(cli.kinds, text);
  if (target !== undefined) return target;
  throw new CommandError(EXIT.usage, describeUnknownTarget(cli.kinds, text));
}

/** The same of commands that are about one only, so that no plural is meant. */
export function oneOf(cli: Cli, text: string): Target & { readonly name: string } {
  const { kind, name } = targetOf(cli, text.includes("/") ? text : `${cli.kinds[0].noun}/${text}`);
  return { kind, name: name ?? text };
}

/** Of leases there are other commands. Throws CommandError for `lease/ID`, which says what is done instead. */
export function refuseLease(text: string, message: string, hintOf: (id: string) => string): void {
  const [word = "", id = ""] = text.split("/");
  if (text.includes("/") && isLeaseWord(word))
    throw new CommandError(EXIT.usage, message, { hint: hintOf(id === "" ? "ID" : id) });
}

/** By which commands find it again: the name alone is enough for the first kind. */
export function shortTarget(cli: Cli, { kind, name }: { readonly kind: string; readonly name: string }): string {
  return kind === cli.kinds[0].noun ? name : `${kind}/${name}`;
}
