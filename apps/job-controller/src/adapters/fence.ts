/** Whether this process still leads, asked at this moment: false in one that was frozen for longer than the lock lives. */
export type Fence = () => boolean;

/** The same work, begun only while this process leads; otherwise it rejects as if its pass had been stopped. */
export function fenced<Input extends readonly unknown[], Output>(
  isHeld: Fence,
  work: (...input: Input) => Promise<Output>,
): (...input: Input) => Promise<Output> {
  return async (...input) => {
    if (!isHeld()) throw new DOMException("this process does not lead any more", "AbortError");
    return work(...input);
  };
}
