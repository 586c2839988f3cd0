import { STAGES, WORK_KINDS, type Stage, type Work, type WorkKind } from "./work.ts";

/** The filter of a list of work, which is stored in the address of the page. */
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

/** The text of each row in lower case, cached while the work is unchanged: each typed letter of a search reads thousands of rows. */
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

/** Work that waits for the same reason. */
export type WaitGroup = {
  /** The stable code; the state if the work has no code. */
  readonly code: string;
  /** The reason of the oldest work. */
  readonly because: string;
  readonly count: number;
  readonly oldestMs: number;
  /** The filter that selects work with this code or state. */
  readonly filter: WorkFilter;
};

/** Groups waiting work by its reason, regardless of numbers in the reason, the most frequent group first. */
export function groupWaits(work: readonly Work[]): readonly WaitGroup[] {
  const waiting = work.filter(({ stage, code }) => stage === "waiting" || (stage === "starting" && code !== ""));
  const reasonOf = ({ code, state, because }: Work): string => code || `${state} ${because.replaceAll(/\d+/g, "#")}`;
  return [...Map.groupBy(waiting, reasonOf).values()]
    .flatMap((each): WaitGroup[] => {
      const oldest = each.reduce((one, other) => (other.createdAtMs < one.createdAtMs ? other : one));
      const { code, state, kind, stage, createdAtMs } = oldest;
      const because = oldest.because || (each.find((other) => other.because !== "")?.because ?? "");
      const filter = code === "" ? { kind, stage } : { q: code };
      return [{ code: code || state, because, count: each.length, oldestMs: createdAtMs, filter }];
    })
    .sort((one, other) => other.count - one.count || (one.code < other.code ? -1 : 1));
}

/** Returns the latest failures, newest first. */
export function latestFailures(work: readonly Work[], max: number): readonly Work[] {
  const failed = work.filter(({ stage }) => stage === "failed");
  return failed.sort((one, other) => other.finishedAtMs - one.finishedAtMs).slice(0, max);
}
