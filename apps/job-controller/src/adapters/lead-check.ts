/** Whether this process leads now; false in a process that was frozen for longer than the TTL of the lock. */
export type LeadCheck = () => boolean;

/** Rejects like an aborted pass unless this process leads when the work starts. */
export function runWhileLeading<Input extends readonly unknown[], Output>(
  isHeld: LeadCheck,
  work: (...input: Input) => Promise<Output>,
): (...input: Input) => Promise<Output> {
  return async (...input) => {
    if (!isHeld()) throw new DOMException("this process does not lead any more", "AbortError");
    return work(...input);
  };
}
