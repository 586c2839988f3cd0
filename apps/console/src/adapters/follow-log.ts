import type { LogPiece } from "./messages.ts";
import { askJson, RequestError } from "./request.ts";

const RETRY_MS = 2000;
/** Time after which the gateway answers even without text. Without a wait, `complete` would state the end of one run, and not of the job. */
const LONG_POLL_MS = 4000;
/** Read interval of a continuously written log. */
const BETWEEN_MS = 250;
/** Size from which a chunk is probably not the last available one. */
const FULL_BYTES = 256 * 1024;

/** The state of a log that receives no more text. */
export const COMPLETE = "complete";

export type LogReader = {
  readonly onText: (text: string) => void;
  /** Reports whether the log is being read, or the reason why it is not. */
  readonly onState: (state: string) => void;
};

/** Follows a log until its end or the signal, and continues from its position after an outage. An offset counts within one run of a job's member. */
export async function followLog(path: string, { onText, onState }: LogReader, signal: AbortSignal): Promise<void> {
  const decoder = new TextDecoder();
  let place = "offset=0";
  const read = async (): Promise<Progress> => {
    const url = `${path}${path.includes("?") ? "&" : "?"}${place}&waitMs=${LONG_POLL_MS}`;
    const { chunk, nextOffset, complete, run = "" } = await askJson<LogPiece>(url, { signal });
    const bytes = Uint8Array.from(atob(chunk), (character) => character.charCodeAt(0));
    if (bytes.length > 0) onText(decoder.decode(bytes, { stream: true }));
    place = `offset=${nextOffset}${run === "" ? "" : `&run=${encodeURIComponent(run)}`}`;
    if (complete) return { state: COMPLETE, nextInMs: undefined };
    return { state: "following", nextInMs: bytes.length < FULL_BYTES ? BETWEEN_MS : 0 };
  };
  let shown = "";
  for (;;) {
    const { state, nextInMs } = await read().catch(afterFailure);
    if (signal.aborted) return;
    if (state !== shown) onState(state);
    shown = state;
    if (nextInMs === undefined) return;
    await new Promise((resolve) => setTimeout(resolve, nextInMs));
  }
}

/** `nextInMs` is undefined if the log is complete. */
type Progress = { readonly state: string; readonly nextInMs: number | undefined };

function afterFailure(error: unknown): Progress {
  if (isFinal(error)) return { state: error.message, nextInMs: undefined };
  return { state: "interrupted; it continues by itself", nextInMs: RETRY_MS };
}

/** Returns whether the gateway would refuse the request again; too many requests is not final. */
function isFinal(error: unknown): error is RequestError {
  if (!(error instanceof RequestError)) return false;
  const { status } = error.problem;
  return status >= 400 && status < 500 && status !== 429;
}
