import { ask, RequestError } from "./request.ts";

const RETRY_MS = 2000;

export type LogReader = {
  readonly onText: (text: string) => void;
  /** Whether it is being read, or why it is not. */
  readonly onState: (state: string) => void;
};

/** Follows a log until its end or the signal, and continues where it was when the connection breaks. */
export async function followLog(path: string, { onText, onState }: LogReader, signal: AbortSignal): Promise<void> {
  let offset = 0;
  const decoder = new TextDecoder();
  const read = async (): Promise<string> => {
    const { body } = await ask(`${path}${path.includes("?") ? "&" : "?"}follow=true&offset=${offset}`, { signal });
    onState("following");
    const reader = body?.getReader();
    for (let part = await reader?.read(); part?.value !== undefined; part = await reader?.read()) {
      offset += part.value.byteLength;
      onText(decoder.decode(part.value, { stream: true }));
    }
    return "complete";
  };
  for (;;) {
    const end = await read().catch((error: unknown) => (isFinal(error) ? error.message : undefined));
    if (signal.aborted) return;
    onState(end ?? "interrupted; it continues by itself");
    if (end !== undefined) return;
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

/** What the gateway refuses, it refuses again, except too many requests. */
function isFinal(error: unknown): error is RequestError {
  if (!(error instanceof RequestError)) return false;
  const { status } = error.problem;
  return status >= 400 && status < 500 && status !== 429;
}
