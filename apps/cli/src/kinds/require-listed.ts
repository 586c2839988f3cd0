import { CommandError } from "../command-error.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { suggestName } from "../domain/suggest-name.ts";

/** Returns the item of this name. Throws a CommandError if the list lacks it; its hint is the nearest name, or `otherwise`. */
export function requireListed<Item extends { readonly name: string }>(
  noun: string,
  items: readonly Item[],
  name: string,
  otherwise: string,
): Item {
  const found = items.find((item) => item.name === name);
  if (found !== undefined) return found;
  const names = items.map((item) => item.name);
  throw new CommandError(EXIT.refused, `${noun} ${name} does not exist`, { hint: suggestName(name, names, otherwise) });
}
