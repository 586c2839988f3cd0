import type { Problem } from "./messages.ts";
import { ask, RequestError } from "./request.ts";

/** A message of the gateway about one list. */
export type ListEvent =
  | { readonly kind: "reset" | "synced" }
  | { readonly kind: "added" | "modified" | "deleted"; readonly item: unknown }
  | { readonly kind: "stale" | "closed"; readonly problem: Problem };

export type ListsReader = {
  /** Called when the gateway serves the lists, from the browser's position on. */
  readonly onOpen: () => void;
  readonly onEvent: (list: string, event: ListEvent) => void;
  /** Reports that the connection has ended; the caller need not reopen it. */
  readonly onLost: (problem: Problem) => void;
};

const RETRY_MS = { first: 1000, max: 15_000 };
/** Interval after which a closed list is requested again, such as a list without the right to watch it. */
const REOPEN_MS = 30_000;
/** Time without a byte after which a connection counts as dead although it is open; the gateway writes every 10 s. */
const SILENCE_MS = 35_000;
const LOST: Problem = { status: 0, code: "UNREACHABLE", detail: "the connection to the gateway is lost" };
const SILENT: Problem = { ...LOST, detail: `the gateway has sent nothing for ${SILENCE_MS / 1000} s` };

/** The browser's position in every list, which a later connection continues. */
export type ListPlaces = { lastEventId: string };

/** Follows all lists over one connection until the signal, and reconnects after each failure. */
export async function followLists(
  names: readonly string[],
  places: ListPlaces,
  reader: ListsReader,
  signal: AbortSignal,
): Promise<void> {
  let waitMs = RETRY_MS.first;
  while (!signal.aborted) {
    const problem = await followOnce(names, places, reader, signal);
    if (isAborted(signal)) return;
    if (problem !== undefined) reader.onLost(problem);
    waitMs =
      problem === undefined || problem === LOST || problem === SILENT
        ? RETRY_MS.first
        : Math.min(waitMs * 2, RETRY_MS.max);
    await pause(waitMs, signal);
  }
}

/** Returns whether the signal is aborted. A function is needed, because the compiler assumes that the property does not change during an await. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}

/** Resolves with the reason why the connection has ended; undefined once closed lists must be requested again. */
async function followOnce(
  names: readonly string[],
  places: ListPlaces,
  reader: ListsReader,
  signal: AbortSignal,
): Promise<Problem | undefined> {
  const reopen = new AbortController();
  const silence = makeSilence();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const query = names.map((name) => `resource=${encodeURIComponent(name)}`).join("&");
  const { lastEventId } = places;
  try {
    const reply = await ask(`/v1/watch?${query}`, {
      signal: AbortSignal.any([signal, reopen.signal, silence.signal]),
      ...(lastEventId !== "" && { headers: { "last-event-id": lastEventId } }),
    });
    reader.onOpen();
    await readEvents(reply, places, silence.end, (list, event) => {
      reader.onEvent(list, event);
      if (event.kind === "closed") timer ??= setTimeout(() => reopen.abort(), REOPEN_MS);
    });
    return LOST;
  } catch (error) {
    if (reopen.signal.aborted) return undefined;
    if (silence.signal.aborted) return SILENT;
    return error instanceof RequestError ? error.problem : LOST;
  } finally {
    clearTimeout(timer);
    silence.stop();
  }
}

/** Aborts when `end` has not been called for `SILENCE_MS`. */
function makeSilence(): { readonly signal: AbortSignal; readonly end: () => void; readonly stop: () => void } {
  const controller = new AbortController();
  const begin = () => setTimeout(() => controller.abort(), SILENCE_MS);
  let timer = begin();
  const stop = (): void => clearTimeout(timer);
  const end = (): void => {
    stop();
    timer = begin();
  };
  return { signal: controller.signal, end, stop };
}

/** Reads server-sent events to their end. An id without data is no event, but updates the positions. */
async function readEvents(
  { body }: Response,
  places: ListPlaces,
  onBytes: () => void,
  onEvent: ListsReader["onEvent"],
): Promise<void> {
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let read = await reader?.read(); read?.done === false; read = await reader?.read()) {
    onBytes();
    const blocks = (rest + read.value).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const fields = fieldsOf(block);
      const { event, data, id } = fields;
      if (event !== undefined && data !== undefined) {
        const { resource, ...more } = JSON.parse(data) as { readonly resource?: string };
        // The end of all lists also ends the connection.
        if (resource !== undefined) onEvent(resource, { kind: event, ...more } as ListEvent);
      }
      // The position is updated after the event, which would be lost if its handling failed.
      places.lastEventId = id ?? places.lastEventId;
    }
  }
}

type EventFields = { readonly event?: string; readonly id?: string; readonly data?: string };

function fieldsOf(block: string): EventFields {
  const lines = block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]);
  return Object.fromEntries(lines) as EventFields;
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const wake = (): void => resolve(undefined);
  const timer = setTimeout(wake, ms);
  signal.addEventListener("abort", wake, { once: true });
  await promise;
  clearTimeout(timer);
  signal.removeEventListener("abort", wake);
}
