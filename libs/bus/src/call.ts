import type { Fault } from "@muster/faults";

/** One call in flight on the serving side: its deadline, and the signal that aborts when the caller stops waiting. */
export class CallInFlight {
  readonly deadlineMs: number;
  readonly pageBytes: number;
  /** Called once, when the call ends before its handler does. */
  onEnd: ((fault: Fault) => void) | undefined;
  #fault: Fault | undefined;
  #controller: AbortController | undefined;
  readonly #timer: NodeJS.Timeout;

  constructor(operation: string, timeoutMs: number, pageBytes: number) {
    this.pageBytes = pageBytes;
    this.deadlineMs = Date.now() + timeoutMs;
    this.#timer = setTimeout(() => {
      this.end({ code: "deadline_exceeded", operation, timeoutMs });
    }, timeoutMs);
  }

  /** Created on first use, because most handlers do not need it. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#fault !== undefined) this.#controller.abort(abortReason(this.#fault));
    return this.#controller.signal;
  }

  get ended(): boolean {
    return this.#fault !== undefined;
  }

  /** Ends a call whose caller stops waiting, or whose service stops: aborts the signal of the handler, and answers with this fault. */
  end(fault: Fault): void {
    if (this.#fault !== undefined) return;
    this.#fault = fault;
    this.#controller?.abort(abortReason(fault));
    this.onEnd?.(fault);
  }

  /** Ends a call that the handler has answered. */
  finish(): void {
    clearTimeout(this.#timer);
    this.onEnd = undefined;
  }
}

function abortReason(fault: Fault): Error {
  return new DOMException(`call ended: ${fault.code}`, "AbortError");
}
