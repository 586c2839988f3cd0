/**
 * Returns to the system the memory that only the start needed, some 20 MiB, for a tenth of a second of processor time. V8 does so by itself only when it
 * allocates again. Nothing happens without `--expose-gc`.
 */
export function releaseStartMemory(): void {
  globalThis.gc?.({ type: "major", execution: "async", flavor: "last-resort" }).catch(() => undefined);
}
