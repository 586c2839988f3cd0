import { BATCH_KINDS } from "./batch-kinds.ts";
import { JOB } from "./job-kinds.ts";

/** The owner of machines and of the pods on them. Both fields are DNS labels. */
export type Owner = { readonly kind: string; readonly id: string };

/** Separates the id of an owner from the name of a part that holds machines itself: `train-0a1b--worker-7` is a part of `train-0a1b`. */
export const PART_SEPARATOR = "--";
/** Kinds whose parts have the kind of their owner, because owner ids of these kinds contain no separator. */
const KINDS_WITH_PARTS: ReadonlySet<string> = new Set([JOB, ...BATCH_KINDS, "replica-set"]);
/** Ends the kind of parts that a limit of their owner's kind does not count: `session-part`. */
const PART_KIND = "-part";
/** Maximum characters of the owner's id in the id of a part, so that a number fits after it. */
export const PART_OWNER_CHARACTERS = 47;

/** Whether pods of the owner may run on machines of the holder: it is the owner itself, or a part of it. */
export function canOccupy(owner: Owner, holder: Owner): boolean {
  return isSameOwner(owner, holder) || isPartOf(holder, owner);
}

function isSameOwner(one: Owner, other: Owner): boolean {
  return one.kind === other.kind && one.id === other.id;
}

function isPartOf({ kind, id }: Owner, owner: Owner): boolean {
  if (kind === owner.kind) return KINDS_WITH_PARTS.has(kind) && id.startsWith(`${owner.id}${PART_SEPARATOR}`);
  return (
    kind === `${owner.kind}${PART_KIND}` &&
    id.startsWith(`${owner.id.slice(0, PART_OWNER_CHARACTERS)}${PART_SEPARATOR}`)
  );
}
