/** Whether this process leads now; false in a process that was frozen for longer than the TTL of the lock. */
export type LeadCheck = () => boolean;

/** Wraps work so that it starts only while this process leads; otherwise it rejects as if its pass had been aborted. */
export function runWhileLeading<Input extends readonly unknown[], Output>(
  isHeld: LeadCheck,
  work: (...input: Input) => Promise<Output>,
): (...input: Input) => Promise<Output> {
  return async (...input) => {
    if (!isHeld()) throw new DOMException("this process does not lead any more", "AbortError");
    return work(...input);
  };
}
