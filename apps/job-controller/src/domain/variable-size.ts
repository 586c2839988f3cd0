import type { EnvVariable } from "./kind.ts";

/** Linux starts no process with a longer variable (MAX_ARG_STRLEN, 32 pages of 4 KiB): E2BIG. */
export const MAX_VARIABLE_BYTES = 131_072;

/** Counts as the kernel does: name, sign, value and the final zero byte. */
export function countVariableBytes({ name, value }: EnvVariable): number {
  return Buffer.byteLength(name) + Buffer.byteLength(value) + 2;
}
