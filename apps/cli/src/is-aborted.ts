/** Whether the signal is aborted by now. Through a function, because it changes while somebody waits and the compiler believes that it does not. */
export function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}
