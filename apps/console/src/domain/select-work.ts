import { STAGES, WORK_KINDS, type Stage, type Work, type WorkKind } from "./work.ts";

/** The filter of a list of work: it is in the address of the page. */
export type WorkFilter = {
  readonly q?: string;
  readonly kind?: WorkKind;
  readonly stage?: Stage;
};

/** Selects the work that fits the whole filter. The search covers everything that a row shows. */
export function selectWork(work: readonly Work[], { q = "", kind, stage }: WorkFilter): readonly Work[] {
  const words = q
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  return work.filter(
    (each) =>
      (kind === undefined || each.kind === kind) &&
      (stage === undefined || each.stage === stage) &&
      (words.length === 0 || hasWords(each, words)),
  );
}

/** The text of a row in lower case, kept while the work is unchanged: each letter of a search reads thousands. */
const texts = new WeakMap<Work, string>();

function textOf(work: Work): string {
  const known = texts.get(work);
  if (known !== undefined) return known;
  const { id, kind, type, state, code, because, pools, ownerId } = work;
  const text = [id, kind, type, state, code, because, ownerId, ...pools].join(" ").toLowerCase();
  texts.set(work, text);
  return text;
}

function hasWords(work: Work, words: readonly string[]): boolean {
  const text = textOf(work);
  return words.every((word) => text.includes(word));
}

/** Reads the filter from the query of an address, and ignores unknown values. */
export function readWorkFilter(query: Readonly<Record<string, unknown>>): WorkFilter {
  const { q } = query;
  const kind = WORK_KINDS.find((each) => each === query["kind"]);
  const stage = STAGES.find((each) => each === query["stage"]);
  const text = typeof q === "string" ? q.slice(0, 200) : typeof q === "number" ? String(q) : "";
  return { ...(text !== "" && { q: text }), ...(kind && { kind }), ...(stage && { stage }) };
}

/** Groups waiting work by its reason, the most frequent first. */
export function groupWaits(
  work: readonly Work[],
): readonly { readonly code: string; readonly because: string; readonly count: number; readonly oldestMs: number }[] {
  const waiting = work.filter(({ stage, code }) => stage === "waiting" || (stage === "starting" && code !== ""));
  const groups = [...Map.groupBy(waiting, ({ code, state }) => code || state)];
  return groups
    .map(([code, each]) => ({
      code,
      because: each.find(({ because }) => because !== "")?.because ?? "",
      count: each.length,
      oldestMs: Math.min(...each.map(({ createdAtMs }) => createdAtMs)),
    }))
    .sort((one, other) => other.count - one.count || (one.code < other.code ? -1 : 1));
}

/** The latest failures, newest first. */
export function latestFailures(work: readonly Work[], max: number): readonly Work[] {
  const failed = work.filter(({ stage }) => stage === "failed");
  return failed.sort((one, other) => other.finishedAtMs - one.finishedAtMs).slice(0, max);
}
