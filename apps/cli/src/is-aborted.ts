/** Returns whether the signal is aborted. A function is needed, because the compiler assumes that the property does not change during an await. */
export function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}
