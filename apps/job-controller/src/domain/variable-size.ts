import type { EnvVariable } from "./kind.ts";

/** Linux starts no process with a longer one (MAX_ARG_STRLEN, 32 pages of 4 KiB): E2BIG. */
export const VARIABLE_BYTES_MOST = 131_072;

/** As the kernel counts it: name, sign, value and the zero byte at the end. */
export function variableBytes({ name, value }: EnvVariable): number {
  return Buffer.byteLength(name) + Buffer.byteLength(value) + 2;
}
