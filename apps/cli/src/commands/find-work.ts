import { faultOf } from "@muster/faults";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { decideExit, EXIT } from "../domain/decide-exit.ts";
import { describeTrouble } from "../domain/describe-trouble.ts";
import { isLeaseId, LEASE_NOUN } from "../domain/lease-document.ts";
import type { Kind } from "../kinds/kind.ts";
import { findKind } from "../kinds/kinds.ts";

/** A service that is not installed is asked no longer than this. */
const OTHERS_MS = 2000;

/**
 * The kind of the one thing that has this name, of whatever kind it is. Throws CommandError when several have it, or none. A kind that does not answer has none: only the
 * first one is expected to be there.
 */
export async function kindOfName(cli: Cli, { link }: Connected, name: string): Promise<Kind> {
  const [first] = cli.kinds;
  const brief = briefly(link);
  const answers = await Promise.all(
    cli.kinds.map((kind) => nounOf(kind, kind === first ? link : brief, name, { mayBeSilent: kind !== first })),
  );
  // Asked for a job of any kind and for one of its own, the same job answers twice.
  const nouns = [...new Set(answers.filter((noun) => noun !== undefined && noun !== NONE))];
  const [noun, ...others] = nouns;
  if (noun === undefined) {
    const asked = cli.kinds.filter((kind, index) => answers[index] === NONE && kind.within === undefined);
    throw new CommandError(EXIT.refused, `no ${asked.map((kind) => kind.noun).join(" and no ")} is called ${name}`, {
      hint: isLeaseId(name)
        ? `did you mean ${LEASE_NOUN}/${name}?`
        : `${asked.map(({ plural }) => `\`muster get ${plural}\``).join(" and ")} show those that exist`,
    });
  }
  if (others.length === 0) return findKind(cli.kinds, noun) ?? first;
  throw new CommandError(
    EXIT.usage,
    `several have the name ${name}: ${nouns.map((each) => `${each}/${name}`).join(", ")}`,
    {
      hint: "say which one, with its kind",
    },
  );
}

/** What was asked about `text`, of the first kind where it is a name alone. Where that kind has none, and another one has, the CommandError says which. */
export async function askOfName<Answer>(
  { kinds }: Cli,
  { link }: Connected,
  text: string | undefined,
  question: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await question();
  } catch (error) {
    const fault = faultOf(error);
    if (fault?.code !== "not_found" || text === undefined || text.includes("/")) throw error;
    const [, ...others] = kinds;
    const brief = briefly(link);
    const answers = await Promise.all(others.map((kind) => nounOf(kind, brief, text, { mayBeSilent: true })));
    const noun = answers.find((answer) => answer !== undefined && answer !== NONE);
    if (noun === undefined && !isLeaseId(text)) throw error;
    const hint = `did you mean ${noun === undefined ? LEASE_NOUN : (findKind(kinds, noun)?.noun ?? noun)}/${text}?`;
    throw new CommandError(decideExit(fault).code, describeTrouble(fault), { hint, cause: error });
  }
}

function briefly(link: Connected["link"]): Connected["link"] {
  return { ...link, stop: AbortSignal.any([link.stop, AbortSignal.timeout(OTHERS_MS)]) };
}

const NONE = Symbol("none has this name");

/** The noun of what has the name; undefined where the kind does not answer, and may be silent. */
async function nounOf(
  kind: Kind,
  link: Connected["link"],
  name: string,
  { mayBeSilent }: { readonly mayBeSilent: boolean },
): Promise<string | typeof NONE | undefined> {
  try {
    return (await kind.calls(link).get(name)).kind;
  } catch (error) {
    const fault = faultOf(error);
    if (fault?.code === "not_found") return NONE;
    if (fault === undefined || !mayBeSilent) throw error;
    return undefined;
  }
}
