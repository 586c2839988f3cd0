import { faultOf } from "@muster/faults";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { EXIT } from "../domain/decide-exit.ts";
import type { Kind } from "../kinds/kind.ts";
import { findKind } from "../kinds/kinds.ts";

/** A service that is not installed is asked no longer than this. */
const OTHERS_MS = 2000;

/**
 * The kind of the one thing that has this name, of whatever kind it is. Throws CommandError when several have it; when none has, the first kind is meant. A kind that
 * does not answer has none: only the first one is expected to be there.
 */
export async function kindOfName(cli: Cli, { link }: Connected, name: string): Promise<Kind> {
  const [first] = cli.kinds;
  const brief = { ...link, stop: AbortSignal.any([link.stop, AbortSignal.timeout(OTHERS_MS)]) };
  const found = await Promise.all(
    cli.kinds.map(async (kind) => {
      try {
        return (await kind.calls(kind === first ? link : brief).get(name)).kind;
      } catch (error) {
        const fault = faultOf(error);
        if (fault === undefined || (kind === first && fault.code !== "not_found")) throw error;
        return undefined;
      }
    }),
  );
  // Asked for a job of any kind and for one of its own, the same job answers twice.
  const nouns = [...new Set(found.filter((noun) => noun !== undefined))];
  const [noun = first.noun, ...others] = nouns;
  if (others.length === 0) return findKind(cli.kinds, noun) ?? first;
  throw new CommandError(
    EXIT.usage,
    `several have the name ${name}: ${nouns.map((each) => `${each}/${name}`).join(", ")}`,
    {
      hint: "say which one, with its kind",
    },
  );
}
