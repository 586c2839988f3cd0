/** Whether this process still leads, asked at this moment: false in one that was frozen for longer than its lease. */
export type Fence = () => boolean;

/** The same work, begun only while this process leads; otherwise it rejects as if its pass had been stopped. */
export function fenced<Input extends readonly unknown[], Output>(
  holds: Fence,
  work: (...input: Input) => Promise<Output>,
): (...input: Input) => Promise<Output> {
  return async (...input) => {
    if (!holds()) throw new DOMException("this process does not lead any more", "AbortError");
    return work(...input);
  };
}
